"""Everything a post room owns in AWS, said once: queues, buckets, tables, bus; a site's and a customer's part."""

from __future__ import annotations

from email.utils import parseaddr
from typing import Any

from postroom.aws.buckets import Bucket, Rule
from postroom.aws.bus import Bus
from postroom.aws.clients import region
from postroom.aws.identities import Identity
from postroom.aws.names import Names
from postroom.aws.notifications import Notification
from postroom.aws.queues import Queue, queue_arn
from postroom.aws.resource import Resource
from postroom.aws.tables import Index, Key, Table
from postroom.settings import Settings

DAY = 86_400
_TIDY = Rule("abandoned-uploads", abort_days=7)


def house(names: Names, settings: Settings, account: str) -> list[Resource]:
    """What one post room needs, in the order in which it can be made."""
    mail_source = f"arn:aws:s3:::{names.mail_bucket}"
    topics = f"arn:aws:sns:{region()}:{account}:{names.prefix}-*"
    return [
        *queue(names.mail_queue, settings, account, senders=(("s3", mail_source),)),
        *queue(names.tasks_queue, settings, account),
        *queue(names.ses_events_queue, settings, account, senders=(("sns", topics),)),
        Bucket(
            names.mail_bucket,
            rules=(Rule("raw-mail", expire_days=settings.mail_days), _TIDY),
            policy=[_ses_writes(names.mail_bucket, account)],
        ),
        Bucket(
            names.tasks_bucket,
            rules=(Rule("task-logs", "task/logs/", expire_days=settings.task_logs_days), _TIDY),
        ),
        Bucket(
            names.changes_bucket,
            versioned=True,
            rules=(Rule("customer-copies", "customers/", expire_days=30, noncurrent_days=7), _TIDY),
        ),
        Notification(names.mail_bucket, "incoming-mail", queue_arn(names.mail_queue, account), "incoming/"),
        *tables(names),
        Bus(names.bus),
        Identity(parseaddr(settings.mail_from)[1].rpartition("@")[2]),
    ]


def queue(
    name: str, settings: Settings, account: str, *, senders: tuple[tuple[str, str], ...] = ()
) -> tuple[Queue, Queue]:
    """A queue and its dead letters, which come first: the queue refers to them."""
    shared = {
        "VisibilityTimeout": str(settings.visibility_seconds),
        "ReceiveMessageWaitTimeSeconds": "20",
        "SqsManagedSseEnabled": "true",
    }
    dead = Names.dead_letters(name)
    return (
        Queue(dead, account, {**shared, "MessageRetentionPeriod": str(14 * DAY)}),
        Queue(
            name,
            account,
            {**shared, "MessageRetentionPeriod": str(4 * DAY)},
            dead_letters=dead,
            max_receives=settings.poison_receives,
            senders=senders,
        ),
    )


def tables(names: Names) -> list[Table]:
    """The book's tables and the event table."""
    numbered = tuple(Index(f"GSI{n}", ((f"GSI{n}PK", "S"), (f"GSI{n}SK", "S"))) for n in range(1, 5))
    project: Key = (("project", "S"),)
    return [
        Table(
            names.leases,
            (("key", "S"),),
            indexes=(Index("open", (("open", "S"), ("effective_until", "N"))),),
            recovery=True,
        ),
        Table(
            names.instructions,
            (*project, ("message_id", "S")),
            local_indexes=(Index("unfinished", (*project, ("open_order", "S"))),),
            recovery=True,
        ),
        Table(names.interruptions, (*project, ("at", "S")), ttl="ttl"),
        Table(names.threads, (("thread_id", "S"),)),
        Table(
            names.deliveries,
            (("batch", "S"), ("recipient", "S")),
            indexes=(Index("by_id", (("delivery_id", "S"),)),),
            recovery=True,
        ),
        Table(
            names.events,
            (("PK", "S"), ("SK", "S")),
            indexes=(*numbered, Index("untold", (("untold", "S"), ("SK", "S")))),
            ttl="ttl",
        ),
    ]


def site(project: str, domain: str) -> list[Resource]:
    """The three buckets of a site."""
    media = (
        # Small objects cost more to move than they save; S3 leaves those below 128 KB where they are.
        Rule("media", transitions=((30, "STANDARD_IA"), (365, "GLACIER_IR")), noncurrent_days=7),
        Rule("documents", "documents/", expire_days=90),
        Rule("manifests", "manifests/", expire_days=30),
        Rule("uploads", "uploads/", expire_days=30),
        _TIDY,
    )
    return [
        Bucket(Names.media_bucket(project, domain), rules=media),
        Bucket(Names.edit_bucket(project, domain), rules=(_TIDY,)),
        Bucket(Names.production_bucket(project, domain), rules=(_TIDY,)),
    ]


def customer(code: str, names: Names, settings: Settings, account: str) -> list[Resource]:
    """A customer's queue, and the notification that fills it."""
    name = names.changes_queue(code)
    source = f"arn:aws:s3:::{names.changes_bucket}"
    return [
        *queue(name, settings, account, senders=(("s3", source),)),
        Notification(
            names.changes_bucket, notification_id(code), queue_arn(name, account), f"customers/{code}/", ".json"
        ),
    ]


def notification_id(code: str) -> str:
    return f"customer-{code}"


def _ses_writes(bucket: str, account: str) -> dict[str, Any]:
    return {
        "Sid": "ses-writes-incoming-mail",
        "Effect": "Allow",
        "Principal": {"Service": "ses.amazonaws.com"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/incoming/*",
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }

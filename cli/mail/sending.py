"""`postroom mail send`: a raw mail put where SES would put it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli import say, whereabouts
from cli.mail import following
from postroom.aws.names import Names
from postroom.errors import BadInput
from postroom.mail import Letter, parse, posting
from postroom.mail.writing import Enclosure
from postroom.settings import settings


def send(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A raw mail; else write one with the options.")
    ] = None,
    sender: Annotated[str | None, typer.Option("--from", help="Who writes: an address, or `Name <address>`.")] = None,
    to: Annotated[list[str] | None, typer.Option("--to", help="To whom; project+user@… names the site.")] = None,
    subject: Annotated[str, typer.Option("--subject", help="The subject.")] = "",
    text: Annotated[str, typer.Option("--text", help="The instruction.")] = "",
    attach: Annotated[
        list[Path] | None, typer.Option("--attach", help="A file to send along; may be repeated.")
    ] = None,
    in_reply_to: Annotated[str | None, typer.Option("--in-reply-to", help="Message-ID of the mail it answers.")] = None,
    verdict: Annotated[
        list[str] | None, typer.Option("--verdict", help="What the receiving host found, as in dmarc=fail.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is carried out, and print the outcome.")] = False,
    wait_seconds: Annotated[float, typer.Option("--wait-seconds", help="How long to wait at most.")] = 600,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent; store nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Put a raw mail where SES would, with the headers SES would add; prints its message_id."""
    posted = post(_written(file, sender, to or [], subject, text, attach or [], in_reply_to), verdict or [], dry_run)
    if wait and not dry_run:
        outcome = following.wait(posted["message_id"], wait_seconds)
        following.tell(outcome, as_json)
        raise typer.Exit(following.EXIT[outcome["status"]])
    if as_json:
        say.data(posted)
    else:
        say.text(posted["message_id"])


def post(raw: bytes, verdicts: list[str], dry_run: bool = False) -> dict[str, Any]:
    """The mail stored as an incoming one; what it is called and where it lies."""
    from postroom.aws import clients  # boto3 is slow to load, and `mail parse` does not need it

    config = settings()
    message_id = posting.new_id()
    stored = posting.incoming(
        raw,
        message_id=message_id,
        verdicts=posting.verdicts_of(verdicts),
        region=clients.region(),
        receiving_host=config.receiving_host,
    )
    letter = _checked(stored, message_id)
    bucket, key = Names(config.prefix).mail_bucket, f"incoming/{message_id}"
    if not dry_run:
        whereabouts.require()
        clients.client("s3").put_object(Bucket=bucket, Key=key, Body=stored, ContentType="message/rfc822")
    return {
        "message_id": message_id,
        "thread_id": letter.thread_id if letter else None,
        "bucket": bucket,
        "key": key,
        "size": len(stored),
        "stored": not dry_run,
    }


def _checked(stored: bytes, message_id: str) -> Letter | None:
    """The letter, for the answer; None when it will be refused: that is for the flow to say, and worth trying out."""
    try:
        return parse(stored, message_id=message_id)
    except BadInput as error:
        say.note(f"This mail will be refused: {error}")
        return None


def _written(
    file: str | None, sender: str | None, to: list[str], subject: str, text: str, attach: list[Path], reply: str | None
) -> bytes:
    if file is not None:
        if sender or to or subject or text or attach or reply:
            raise typer.BadParameter("give a FILE, or the options that write a mail, not both")
        try:
            return typer.get_binary_stream("stdin").read() if file == "-" else Path(file).read_bytes()
        except OSError as error:
            raise BadInput(f"{file} can't be read: {error.strerror}") from None
    if not sender or not to:
        raise typer.BadParameter("give a FILE, or --from and --to")
    return posting.draft(
        sender=sender, to=to, subject=subject, text=text, attachments=[_file(p) for p in attach], in_reply_to=reply
    )


def _file(path: Path) -> Enclosure:
    try:
        return Enclosure(path.name, path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} can't be attached: {error.strerror}") from None

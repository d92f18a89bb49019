"""What can be set from outside, read once at start; a wrong value is named, with what it should be.

Every field is the environment variable `POSTROOM_<NAME>`. A secret may also come from a file,
`POSTROOM_<NAME>_FILE`. docs/settings.md is made from the descriptions below.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from postroom.errors import Misconfigured, explain

PREFIX = "POSTROOM_"
SQS_HOLDS_SECONDS = 43_200  # longer nobody holds one copy of a message


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    # the house
    prefix: str = Field("postroom", description="Name in front of every queue, bucket and table.")
    tenant: str = Field("local", description="Tenant that events are filed under.")
    domain: str = Field("example.com", description="Domain of the sites and of the mail addresses.")
    data: Path = Field(Path(".postroom"), description="Directory of the local post room: state, logs, repositories.")
    log_format: Literal["readable", "json"] = Field(
        "readable", description="How lines on standard output look: `readable`, or `json` for production."
    )

    # the book
    promise_seconds: float = Field(
        30, gt=0.2, le=600, description="How long a holder may work after a heartbeat; others take over at 1.5 times."
    )
    max_attempts: int = Field(
        3, ge=1, le=20, description="How often a body is started before its work counts as failed."
    )
    call_tries: int = Field(3, ge=1, le=10, description="How often one transient call is tried inside a body.")
    longest_wait_hours: float = Field(
        24, gt=0, description="How long work may wait in all for rate limits to reset before that costs it attempts."
    )
    events_ttl_days: int = Field(90, ge=1, description="Days an event stays in the event table.")

    # the sensor
    visibility_seconds: int = Field(60, ge=2, le=43200, description="Visibility timeout of every queue.")
    extend_seconds: float = Field(
        20, gt=0.2, description="How often a held message's visibility is extended; less than half of that."
    )
    sweep_seconds: float = Field(15, gt=0.1, description="How often the sweeper looks for unpaid work.")
    pending_seconds: float = Field(60, gt=0.5, description="How long a run may stand Pending without a lease.")
    hold_seconds: float = Field(
        39_600, gt=0.5, le=42_000, description="How long one copy of a message is held before a fresh copy replaces it."
    )
    poison_receives: int = Field(10, ge=2, description="Receives after which a message is dead-lettered unread.")
    sensor_port: int = Field(0, ge=0, le=65535, description="Port of the sensor's /healthz; 0 for none.")
    task_concurrency: int = Field(
        3,
        ge=1,
        description="Agent tasks that run at once, until somebody changes the limit `agent-tasks` in Prefect. "
        "Twice as many are taken from the queue; a limit above that has no further effect.",
    )
    task_logs_days: int = Field(90, ge=1, description="Days the logs, traces and results of a task are kept.")

    # tasks
    task_wait_seconds: float = Field(
        30,
        ge=0,
        description="Longest reset of a rate limit that a task waits for in its place; else it gives its place up.",
    )
    task_keep_files: bool = Field(
        False, description="Keep the local files of a task under `tasks/` of the data directory after their upload."
    )

    # the heavy pool
    heavy_limit: int = Field(
        0,
        ge=0,
        le=500,
        description="Runs at once of a new pool `heavy`; 0 for twice the cores, on ECS no limit. Later: in the UI.",
    )
    heavy_pool: Literal["process", "ecs", "ecs:push"] = Field(
        "process",
        description="Kind of the `heavy` pool: `process` on the worker's machine, `ecs` by a worker, or `ecs:push` "
        "(Prefect Cloud starts the task itself).",
    )

    # the light worker
    light_limit: int = Field(16, ge=1, le=500, description="Runs that one light worker carries out at once.")
    light_poll_seconds: float = Field(
        10, gt=0.1, description="How often the light worker asks for runs; new ones are announced to it besides."
    )
    light_grace_seconds: float = Field(
        5, ge=0, le=7, description="Time that running bodies get to finish when the light worker is stopped."
    )
    light_cancel_seconds: float = Field(
        10, gt=0, description="Time a cancelled body has to let go before it is left behind and its run ended."
    )

    # mail
    mail_max_bytes: int = Field(40 * 1024 * 1024, ge=1024, description="Largest mail that is accepted.")
    mail_max_attachments: int = Field(50, ge=0, description="Most attachments a mail may have.")
    mail_days: int = Field(30, ge=1, description="Days a raw mail is kept.")
    mail_from: str = Field("postroom@example.com", description="Sender of our replies.")
    receiving_host: str = Field(
        "amazonses.com",
        description="Name under which the receiving host writes Authentication-Results; only that one is believed.",
    )

    # media
    media_concurrency: int = Field(
        0, ge=0, le=64, description="Images prepared at once; 0 chooses by machine, at most 8."
    )
    media_profile: Literal["balanced", "seed"] = Field(
        "balanced", description="`balanced`: AVIF q86 effort 3; `seed`: AVIF q85 effort 4, four times the CPU."
    )
    media_max_pixels: int = Field(100_000_000, ge=1, description="Largest picture, in pixels, that is decoded.")
    media_memory_mb: int = Field(1500, ge=128, description="Memory limit of the process that decodes a picture.")
    media_seconds: int = Field(120, ge=1, description="Time limit of the process that decodes a picture.")
    presigned_hours: int = Field(72, ge=1, le=168, description="Hours a presigned link to media is valid.")

    # agent
    agent: Literal["claude", "literal"] = Field(
        "literal",
        description="Who edits: `claude`, or `literal` (puts the mail onto the site as written, needs no key).",
    )
    agent_model: str = Field("claude-opus-4-5", description="Model the claude driver asks for.")
    agent_url: str | None = Field(None, description="Base URL of the model's endpoint; unset for the public one.")
    agent_token: SecretStr | None = Field(None, description="Key or OAuth token of the model's endpoint. Secret.")
    agent_max_turns: int = Field(60, ge=1, le=200, description="Turns one edit may take.")
    agent_max_usd: float = Field(5.0, gt=0, description="Money one edit may cost.")
    agent_seconds: int = Field(1800, ge=1, description="Time one agent may work.")
    agent_idle_seconds: int = Field(
        300, ge=1, description="Time without a sign of life after which an agent counts as stuck."
    )
    agent_memory_mb: int = Field(1024, ge=64, description="Memory an agent with all its processes may use.")
    screenshots: bool = Field(True, description="Whether replies show a picture of the page, if Chromium is there.")
    edit_seconds: int = Field(3600, ge=1, description="Time one edit may take as a whole.")
    sandbox: Literal["full", "weak"] = Field(
        "full",
        description="`full`: builds and agents run in namespaces; `weak`: only as another user with limits "
        "(for hosts that forbid namespaces). Never chosen silently.",
    )

    # sites
    site_git_token: SecretStr | None = Field(
        None, description="Token for https repositories of sites. Secret. Unset for local ones and ssh."
    )
    site_git_host: str = Field(
        "github.com",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?$",
        description="Host that the token is for, with its port if it has one; no other host is ever sent it.",
    )
    site_file_mb: int = Field(25, ge=1, description="Largest file a site may hold.")
    site_total_mb: int = Field(500, ge=1, description="Largest site, source or built, in all.")
    build_seconds: int = Field(300, ge=1, description="Time one build of a site may take.")
    build_memory_mb: int = Field(2048, ge=256, description="Memory one build of a site may use.")
    packages: Path | None = Field(
        None, description="Directory of installed site packages, for several post rooms to share; else in `data`."
    )
    install_seconds: int = Field(300, ge=1, description="Time the installation of a site's packages may take.")
    deploy_concurrency: int = Field(8, ge=1, le=64, description="Files of a site that are uploaded at once.")
    preempt_max_in_row: int = Field(3, ge=0, description="Preemptions in a row after which a newcomer waits instead.")
    preempt_max_wait_seconds: int = Field(900, ge=1, description="Oldest wait after which a newcomer waits instead.")
    ask_window_seconds: int = Field(
        300, ge=1, description="Time after which an edit that was asked for but never began is asked for again."
    )

    # the health check
    health_warning_minutes: float = Field(
        5, gt=0, description="Minutes without a sign of life after which running work is worth a warning."
    )
    health_critical_minutes: float = Field(
        10, gt=0, description="Minutes without a sign of life after which running work is in trouble."
    )
    health_overtime_minutes: float = Field(60, gt=0, description="Minutes after which running work takes too long.")
    health_no_success_minutes: float = Field(
        30, gt=0, description="Minutes without any success, while work waits, that raise an alarm."
    )
    health_dead_letters: int = Field(10, ge=0, description="More dead letters than this raise an alarm.")
    health_failures_an_hour: int = Field(5, ge=0, description="More failures in an hour than this raise an alarm.")
    health_queue_minutes: float = Field(15, gt=0, description="Minutes a queue may have letters that nobody takes.")
    health_queue_depth: int = Field(1000, ge=1, description="More letters waiting in a queue than this raise an alarm.")
    health_late_minutes: float = Field(5, gt=0, description="Minutes a run may be late before that is an alarm.")
    health_repeat_minutes: float = Field(60, gt=0, description="Minutes before the same incident is told once more.")

    # changes
    tell_cancelled: bool = Field(
        True, description="Whether people who were told of a change are told that it is cancelled."
    )

    # meetings
    graph_tenant: str | None = Field(
        None, description="Microsoft tenant whose calendar holds meetings; unset: invitations go by mail."
    )
    graph_client_id: str | None = Field(None, description="Application that may write that calendar.")
    graph_client_secret: SecretStr | None = Field(None, description="Secret of that application. Secret.")
    graph_organizer: str | None = Field(None, description="Mailbox whose calendar it is, e.g. changes@example.com.")
    graph_url: str = Field("https://graph.microsoft.com/v1.0", description="Address of Microsoft Graph.")
    graph_login_url: str = Field("https://login.microsoftonline.com", description="Where tokens for it are given.")

    # deliveries
    delivery_call_seconds: float = Field(
        10, ge=0.2, le=60, description="Time one call to a customer's SES may take; then its mail counts as unknown."
    )
    delivery_at_once: int = Field(
        128,
        ge=1,
        le=1000,
        description="Mails of one process that are on their way at once: as many a kill can leave unknown.",
    )

    # tell people
    slack_token: SecretStr | None = Field(None, description="Slack bot token for alerts. Secret.")
    slack_channel: str | None = Field(None, description="Slack channel for alerts.")

    # finding faults
    debug: bool = Field(False, description="Whether an error of ours is shown with its traceback.")
    step_hook: str | None = Field(
        None,
        description="For the fault tests only: what is called at every step of the mail's flows, as "
        "`tests.module:function`; nothing outside of `tests` is accepted.",
    )

    @field_validator("step_hook")
    @classmethod
    def _of_the_tests(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"tests(?:\.[a-z_]+)+:[a-z_]+", value):
            raise ValueError("must name a function of the tests, as in tests.module:function")
        return value

    @field_validator("prefix")
    @classmethod
    def _short_name(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9-]{1,30}", value):
            raise ValueError("must be 2-31 characters of a-z, 0-9 and '-', beginning with a letter")
        return value

    @model_validator(mode="after")
    def _that_fit_together(self) -> Settings:
        if 2 * self.extend_seconds >= self.visibility_seconds:
            raise ValueError(
                f"POSTROOM_EXTEND_SECONDS is {self.extend_seconds:g}: it must be less than half of "
                f"POSTROOM_VISIBILITY_SECONDS, which is {self.visibility_seconds}, or a single late extension "
                "lets go of what is held"
            )
        if self.hold_seconds + self.visibility_seconds > SQS_HOLDS_SECONDS:
            raise ValueError(
                f"POSTROOM_HOLD_SECONDS is {self.hold_seconds:g}: together with POSTROOM_VISIBILITY_SECONDS, which is "
                f"{self.visibility_seconds}, it must not be more than the {SQS_HOLDS_SECONDS} that SQS allows"
            )
        if self.health_warning_minutes > self.health_critical_minutes:
            raise ValueError(
                f"POSTROOM_HEALTH_WARNING_MINUTES is {self.health_warning_minutes:g}: it must not be more than "
                f"POSTROOM_HEALTH_CRITICAL_MINUTES, which is {self.health_critical_minutes:g}"
            )
        return self


def _from_files() -> dict[str, str]:
    """Values of POSTROOM_*_FILE variables, by field name."""
    found: dict[str, str] = {}
    for name, field in Settings.model_fields.items():
        if "SecretStr" not in str(field.annotation):
            continue
        variable = f"{PREFIX}{name.upper()}_FILE"
        if path := os.environ.get(variable):
            try:
                found[name] = Path(path).read_text().strip()
            except OSError as error:
                raise Misconfigured(f"{variable} names {path!r}, which can't be read: {error.strerror}") from None
    return found


def load(**overrides: Any) -> Settings:
    """Settings from the environment; raises Misconfigured naming every wrong variable."""
    try:
        return Settings(**{**_from_files(), **overrides})
    except ValidationError as error:
        wrong = []
        for item in error.errors(include_url=False, include_context=False):
            if not item["loc"]:  # settings that do not fit together: it names them itself, and shows no others
                wrong.append(item["msg"].removeprefix("Value error, "))
                continue
            name = str(item["loc"][0])
            field = Settings.model_fields.get(name)
            secret = field is not None and "SecretStr" in str(field.annotation)
            got = "a secret" if secret else repr(item.get("input"))
            wrong.append(f"{PREFIX}{name.upper()} is {got}: {item['msg'].removeprefix('Value error, ')}")
        raise Misconfigured("; ".join(wrong) or explain(error)) from None


@functools.lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of this process (read once; tests call `settings.cache_clear()`)."""
    return load()

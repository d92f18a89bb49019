"""A change: what will be done, for which customers, when; and what became of it.

Written as JSON with names in camelCase. Everything that is wrong with a document is named at once, each
with its field and a code: `unknown-customer`, `end-before-start`, `bad-timezone`, `naive-time`,
`impossible-time`, `ambiguous-time`, `contradiction`, `missing`, …
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from postroom.changes import times
from postroom.delivery.customer import CODE
from postroom.errors import BadInput, Unparsable

CHANGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MOST_BYTES = 1_000_000  # of what people write; what happens to a change later may make it longer
INCOMPLETE = {"missing", "string_too_short", "too_short", "naive-time"}  # what a draft may still be


class Status(StrEnum):
    DRAFT = "draft"
    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


def _storable(value: str) -> str:
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\r\t" for c in value):
        raise PydanticCustomError("control-character", "holds a control character")
    return value


def _one_line(value: str) -> str:
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in value):
        raise PydanticCustomError("control-character", "must be one line without control characters")
    return value


def _change_id(value: str) -> str:
    if not CHANGE_ID.fullmatch(value):
        raise PydanticCustomError("bad-id", "must be 1-200 characters of A-Z, a-z, 0-9, '.', '_' and '-'")
    return value


def _code(value: str) -> str:
    if not CODE.fullmatch(value):
        raise PydanticCustomError("bad-code", "{code} is no customer code", {"code": repr(value[:80])})
    return value


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500), AfterValidator(_one_line)]
Text = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(_storable)]


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True, allow_inf_nan=False
    )


class Tickets(_Part):
    service_now: Annotated[str, StringConstraints(max_length=100), AfterValidator(_one_line)] | None = None
    jira: Annotated[str, StringConstraints(max_length=100), AfterValidator(_one_line)] | None = None


class Schedule(_Part):
    """When it is done, as local times of one zone; dates and times may also be given apart."""

    implementation_start: str | None = None
    implementation_end: str | None = None
    begin_date: str | None = None
    begin_time: str | None = None
    end_date: str | None = None
    end_time: str | None = None
    timezone: str | None = None

    @model_validator(mode="after")
    def _is_a_time(self) -> Schedule:
        start = _joined("implementationStart", self.implementation_start, self.begin_date, self.begin_time)
        end = _joined("implementationEnd", self.implementation_end, self.end_date, self.end_time)
        if not self.timezone:
            raise PydanticCustomError(
                "naive-time", "timezone is missing: {start} without a zone is no moment", {"start": start}
            )
        # in UTC: two times of one zone are compared by the clock on the wall
        if times.moment(end, self.timezone).astimezone(UTC) <= times.moment(start, self.timezone).astimezone(UTC):
            raise PydanticCustomError(
                "end-before-start", "implementationEnd {end} is not after {start}", {"end": end, "start": start}
            )
        apart = {
            "implementation_start": start,
            "implementation_end": end,
            "begin_date": start[:10],
            "begin_time": start[11:16],
            "end_date": end[:10],
            "end_time": end[11:16],
        }
        for name, value in apart.items():
            object.__setattr__(self, name, value)  # frozen for everybody else
        self.__pydantic_fields_set__.update(apart)
        return self

    @property
    def start(self) -> datetime:
        return times.moment(str(self.implementation_start), str(self.timezone))

    @property
    def end(self) -> datetime:
        return times.moment(str(self.implementation_end), str(self.timezone))


def _joined(name: str, whole: str | None, date: str | None, time: str | None) -> str:
    apart = f"{date}T{time}" if date and time else None
    if whole is None and apart is None:
        raise PydanticCustomError("missing", "{name} is missing", {"name": name})
    if whole is not None and apart is not None and not _agree(times.parsed(whole), times.parsed(apart)):
        raise PydanticCustomError(
            "contradiction",
            "{name} is {whole}, but date and time say {apart}",
            {"name": name, "whole": whole, "apart": apart},
        )
    return str(whole or apart)


def _agree(whole: datetime, apart: datetime) -> bool:
    """A clock that is read to the minute says nothing of seconds."""
    whole = whole.replace(tzinfo=None)
    return apart in (whole, whole.replace(second=0))


class Metadata(_Part):
    title: Line
    customer_names: tuple[Line, ...] = ()
    customer_codes: Annotated[tuple[Annotated[str, AfterValidator(_code)], ...], Field(min_length=1, max_length=500)]
    tickets: Tickets = Tickets()
    schedule: Schedule
    change_reason: Text = ""
    implementation_plan: Text = ""
    test_plan: Text = ""
    expected_customer_impact: Text = ""
    rollback_plan: Text = ""

    @model_validator(mode="after")
    def _customers_once(self) -> Metadata:
        twice = sorted({code for code in self.customer_codes if self.customer_codes.count(code) > 1})
        if twice:
            raise PydanticCustomError("twice", "customerCodes names {codes} twice", {"codes": ", ".join(twice)})
        if self.customer_names and len(self.customer_names) != len(self.customer_codes):
            raise PydanticCustomError("contradiction", "customerNames and customerCodes differ in length")
        return self


class EmailNotification(_Part):
    subject: Line


class MeetingInvite(_Part):
    """A wish for a meeting; its start is a local time of the schedule's zone."""

    title: Line
    start_time: str
    duration: Annotated[int, Field(ge=1, le=7 * 24 * 60)]  # minutes
    location: Annotated[str, StringConstraints(max_length=500), AfterValidator(_one_line)] = ""


class Modification(_Part):
    """What happened to a change; never altered, and entered once per key."""

    at: AwareDatetime
    by: Line
    type: Line
    key: Line
    customer: str | None = None
    detail: dict[str, Any] | None = None


class Change(_Part):
    """One version of a change, with everything that happened so far."""

    change_id: Annotated[str, AfterValidator(_change_id)]
    version: Annotated[int, Field(ge=1)] = 1
    created_at: AwareDatetime
    modified_at: AwareDatetime
    created_by: Line
    modified_by: Line
    status: Status
    change_metadata: Metadata
    email_notification: EmailNotification
    meeting_invite: MeetingInvite | None = None
    modifications: tuple[Modification, ...] = ()

    @model_validator(mode="after")
    def _meeting_is_a_time(self) -> Change:
        if self.meeting_invite is not None:
            try:
                times.moment(self.meeting_invite.start_time, str(self.change_metadata.schedule.timezone))
            except PydanticCustomError as error:
                raise PydanticCustomError(
                    error.type,
                    "meetingInvite.startTime: {said}",
                    {"said": error.message()},
                ) from None
        return self

    @property
    def codes(self) -> tuple[str, ...]:
        return self.change_metadata.customer_codes

    @property
    def meeting_start(self) -> datetime | None:
        if self.meeting_invite is None:
            return None
        return times.moment(self.meeting_invite.start_time, str(self.change_metadata.schedule.timezone))

    def as_json(self) -> dict[str, Any]:
        """The document as it is stored and shown."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def content(self) -> dict[str, Any]:
        """What people write: an edit changes some of it, nothing else does. Names of customers follow their codes."""
        written = self.as_json()
        written["changeMetadata"].pop("customerNames", None)
        return {name: written[name] for name in CONTENT if name in written}


CONTENT = ("changeMetadata", "emailNotification", "meetingInvite")


def read_change(document: str | bytes | Mapping[str, Any], *, known: Collection[str] | None = None) -> Change:
    """The change that a document describes; BadInput naming every problem when it describes none."""
    change, problems = examined(document, known=known)
    if change is None:
        raise bad_change(problems)
    return change


def examined(
    document: str | bytes | Mapping[str, Any], *, known: Collection[str] | None = None
) -> tuple[Change | None, list[dict[str, str]]]:
    """The change, or what is wrong with the document: field, code and words for each problem."""
    try:
        written = document if isinstance(document, (str, bytes)) else json.dumps(document)
        change = Change.model_validate_json(written)
    except ValidationError as error:
        return None, [
            {
                "field": ".".join(str(part) for part in item["loc"]),
                "code": item["type"],
                "message": item["msg"],
            }
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
    strangers = [code for code in change.codes if known is not None and code not in known]
    if strangers:
        return None, [
            {
                "field": "changeMetadata.customerCodes",
                "code": "unknown-customer",
                "message": f"there is no customer {', '.join(strangers)}",
            }
        ]
    return change, []


def bad_change(problems: list[dict[str, str]]) -> BadInput:
    said = "; ".join(f"{each['field'] or 'the change'}: {each['message']} ({each['code']})" for each in problems)
    kind = Unparsable if any(each["code"] == "json_invalid" for each in problems) else BadInput
    return kind(said, problems=problems)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)

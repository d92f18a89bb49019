"""Changes that ask for a meeting, and people for it."""

from typing import Any

from postroom.changes.lifecycle import noted
from postroom.changes.model import Change, Modification, read_change
from postroom.delivery.customer import Customer
from postroom.errors import PostroomError
from postroom.meetings.attendees import Attendees, Person
from tests.postroom.changes.samples import stored

INVITE = {"title": "Cut-over", "startTime": "2027-03-20T10:00", "duration": 90, "location": "Microsoft Teams"}


def change(
    status: str = "submitted", version: int = 1, *, invite: dict[str, Any] | None = INVITE, **fields: Any
) -> Change:
    """A change for acorn and birch."""
    document = {**stored("acorn", "birch", status=status, **fields), "version": version, "changeId": "CHG-7"}
    if invite is not None:
        document["meetingInvite"] = invite
    return read_change(document)


def people(*addresses: str, unread: dict[str, PostroomError] | None = None) -> Attendees:
    return Attendees({each.lower(): Person(each, "acorn") for each in addresses}, unread or {})


def customer(code: str = "acorn", **fields: Any) -> Customer:
    given: dict[str, Any] = {
        "code": code,
        "name": "Acorn Ltd",
        "region": "eu-west-1",
        "ses_role_arn": "arn:aws:iam::111122223333:role/post",
        "sender": "Change desk <desk@acorn.example.com>",
        "timezone": "America/New_York",
        "contact_list": "people",
    }
    return Customer(**{**given, **fields})


class Archive:
    """A change as the archive keeps it, without S3: for what is decided from it."""

    def __init__(self, change: Change) -> None:
        self.change = change

    async def record(self, entry: Modification) -> Change:
        self.change = noted(self.change, entry)
        return self.change

    def edit(self, **fields: Any) -> Change:
        """The same history under other words."""
        history = self.change.modifications
        self.change = change(**fields).model_copy(update={"modifications": history})
        return self.change

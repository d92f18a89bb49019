"""Changes as a person would write them."""

import copy
import uuid
from typing import Any

WRITTEN: dict[str, Any] = {
    "changeMetadata": {
        "title": "Move the reports to the new database",
        "customerCodes": ["acorn", "birch"],
        "tickets": {"serviceNow": "CHG0000001", "jira": "OPS-1"},
        "schedule": {
            "implementationStart": "2027-03-20T10:00",
            "implementationEnd": "2027-03-20T17:00",
            "timezone": "Europe/Berlin",
        },
        "changeReason": "The old one is slow.",
        "implementationPlan": "Copy, compare, switch.",
        "testPlan": "Compare ten reports.",
        "expectedCustomerImpact": "None.",
        "rollbackPlan": "Switch back.",
    },
    "emailNotification": {"subject": "Change: reports move to the new database"},
}


def written(*codes: str, **fields: Any) -> dict[str, Any]:
    """A change for these customers; a field is set by its path, `changeMetadata__title="…"`."""
    document = copy.deepcopy(WRITTEN)
    if codes:
        document["changeMetadata"]["customerCodes"] = list(codes)
    for path, value in fields.items():
        *parents, last = path.split("__")
        place = document
        for each in parents:
            place = place.setdefault(each, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return document


def stored(*codes: str, status: str = "submitted", **fields: Any) -> dict[str, Any]:
    """The same as it stands in the archive."""
    return {
        "changeId": str(uuid.uuid4()),
        "version": 1,
        "createdAt": "2027-01-02T03:04:05Z",
        "modifiedAt": "2027-01-02T03:04:05Z",
        "createdBy": "ann@example.com",
        "modifiedBy": "ann@example.com",
        "status": status,
        **written(*codes, **fields),
    }

"""Contact lists, contacts and the suppression list of the local SES."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.deployments.local_aws.conftest import Clients

TOPICS = [
    {"TopicName": "news", "DisplayName": "News", "DefaultSubscriptionStatus": "OPT_IN"},
    {"TopicName": "approval", "DisplayName": "Approval", "DefaultSubscriptionStatus": "OPT_OUT"},
]


@pytest.fixture
def ses(aws: Clients) -> Any:
    client = aws.client("sesv2")
    client.create_contact_list(ContactListName="people", Topics=TOPICS)
    return client


def add(ses: Any, name: str, *, everything: bool = False, **preferences: str) -> None:
    said = [{"TopicName": topic, "SubscriptionStatus": status} for topic, status in preferences.items()]
    ses.create_contact(
        ContactListName="people",
        EmailAddress=f"{name}@example.com",
        TopicPreferences=said,
        UnsubscribeAll=everything,
    )


def listed(ses: Any, status: str, topic: str | None = None, *, default: bool = False) -> set[str]:
    wish: dict[str, Any] = {"FilteredStatus": status}
    if topic:
        wish["TopicFilter"] = {"TopicName": topic, "UseDefaultIfPreferenceUnavailable": default}
    answer = ses.list_contacts(ContactListName="people", Filter=wish)
    return {contact["EmailAddress"].split("@")[0] for contact in answer["Contacts"]}


def test_contacts_are_found_by_what_they_said_and_else_by_the_topics_default(ses: Any) -> None:
    add(ses, "in", news="OPT_IN", approval="OPT_IN")
    add(ses, "out", news="OPT_OUT")
    add(ses, "silent")
    add(ses, "gone", everything=True, news="OPT_IN")
    assert listed(ses, "OPT_IN", "news") == {"in"}
    assert listed(ses, "OPT_IN", "news", default=True) == {"in", "silent"}
    assert listed(ses, "OPT_OUT", "news", default=True) == {"out", "gone"}
    assert listed(ses, "OPT_IN", "approval", default=True) == {"in"}
    assert listed(ses, "OPT_OUT", "approval", default=True) == {"out", "silent", "gone"}
    assert listed(ses, "OPT_OUT") == {"gone"}


def test_pages_together_hold_everyone_once(ses: Any) -> None:
    for number in range(25):
        add(ses, f"p{number:02}", news="OPT_IN" if number % 5 else "OPT_OUT")
    wish = {"FilteredStatus": "OPT_IN", "TopicFilter": {"TopicName": "news"}}
    seen: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = ses.list_contacts(ContactListName="people", Filter=wish, PageSize=7, **token)
        assert len(page["Contacts"]) <= 7
        seen += [contact["EmailAddress"] for contact in page["Contacts"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert len(seen) == len(set(seen)) == 20


def test_a_contact_shows_what_it_said_and_the_defaults_of_the_rest(ses: Any) -> None:
    add(ses, "ann", approval="OPT_IN")
    got = ses.get_contact(ContactListName="people", EmailAddress="Ann@example.com")
    assert got["TopicPreferences"] == [{"TopicName": "approval", "SubscriptionStatus": "OPT_IN"}]
    assert got["TopicDefaultPreferences"] == [{"TopicName": "news", "SubscriptionStatus": "OPT_IN"}]
    ses.update_contact(ContactListName="people", EmailAddress="ann@example.com", UnsubscribeAll=True)
    got = ses.get_contact(ContactListName="people", EmailAddress="ann@example.com")
    assert got["UnsubscribeAll"]
    assert got["TopicPreferences"]


@pytest.mark.parametrize(
    ("operation", "given", "code"),
    [
        ("create_contact_list", {"ContactListName": "people"}, "AlreadyExistsException"),
        ("create_contact_list", {"ContactListName": "second"}, "LimitExceededException"),
        ("get_contact_list", {"ContactListName": "nobody"}, "NotFoundException"),
        ("get_contact", {"ContactListName": "people", "EmailAddress": "x@example.com"}, "NotFoundException"),
        ("create_contact", {"ContactListName": "people", "EmailAddress": "no address"}, "BadRequestException"),
        ("list_contacts", {"ContactListName": "people", "PageSize": 1001}, "BadRequestException"),
        ("list_contacts", {"ContactListName": "people", "Filter": {"FilteredStatus": "MAYBE"}}, "BadRequestException"),
        ("get_suppressed_destination", {"EmailAddress": "x@example.com"}, "NotFoundException"),
        ("delete_suppressed_destination", {"EmailAddress": "x@example.com"}, "NotFoundException"),
        ("put_suppressed_destination", {"EmailAddress": "x@example.com", "Reason": "X"}, "BadRequestException"),
    ],
)
def test_what_aws_refuses_is_refused_in_its_words(ses: Any, operation: str, given: Any, code: str) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(ses, operation)(**given)
    assert refused.value.response["Error"]["Code"] == code


def test_a_contact_is_one_whatever_the_case_of_its_address(ses: Any) -> None:
    add(ses, "ann")
    with pytest.raises(ses.exceptions.AlreadyExistsException):
        add(ses, "ANN")


def test_a_list_takes_no_twenty_first_topic(aws: Clients) -> None:
    topics = [{**TOPICS[0], "TopicName": f"t{number}"} for number in range(21)]
    with pytest.raises(ClientError, match="20 topics"):
        aws.client("sesv2").create_contact_list(ContactListName="many", Topics=topics)
    aws.client("sesv2").create_contact_list(ContactListName="many", Topics=topics[:20])


def test_accounts_do_not_see_each_others_lists(ses: Any, aws: Clients) -> None:
    add(ses, "ann")
    other = aws.client("sesv2", "123456789012")
    with pytest.raises(other.exceptions.NotFoundException):
        other.list_contacts(ContactListName="people")


def test_the_suppression_list_is_kept_filtered_and_emptied(ses: Any) -> None:
    ses.put_suppressed_destination(EmailAddress="Bad@example.com", Reason="BOUNCE")
    ses.put_suppressed_destination(EmailAddress="cross@example.com", Reason="COMPLAINT")
    got = ses.get_suppressed_destination(EmailAddress="bad@example.com")["SuppressedDestination"]
    assert (got["EmailAddress"], got["Reason"]) == ("bad@example.com", "BOUNCE")
    only = ses.list_suppressed_destinations(Reasons=["COMPLAINT"])["SuppressedDestinationSummaries"]
    assert [entry["EmailAddress"] for entry in only] == ["cross@example.com"]
    ses.delete_suppressed_destination(EmailAddress="bad@example.com")
    assert len(ses.list_suppressed_destinations()["SuppressedDestinationSummaries"]) == 1

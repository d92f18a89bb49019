"""What may become of a change, and who is told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from postroom.changes.differences import differences
from postroom.changes.lifecycle import edited, moved, noted
from postroom.changes.model import Modification, Status, now, read_change
from postroom.changes.notices import Notice, decide, earlier_keys, notice_key
from postroom.errors import BadInput
from tests.postroom.changes.samples import stored

# Threads that earlier tests left to Prefect draw random numbers too, and Hypothesis takes them for ours.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")

ALLOWED = {
    ("draft", "submitted"),
    ("submitted", "approved"),
    ("submitted", "rejected"),
    ("approved", "completed"),
    *((status, "cancelled") for status in ("draft", "submitted", "approved", "rejected")),
}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("to", Status)
def test_only_the_steps_of_the_lifecycle_are_taken(status: Status, to: Status) -> None:
    change = read_change(stored(status=status.value))
    if (status.value, to.value) in ALLOWED:
        assert moved(change, to, by="ann").status is to
    else:
        with pytest.raises(BadInput, match=f"is {status.value} and can't become {to.value}"):
            moved(change, to, by="ann")


@pytest.mark.parametrize("status", ["submitted", "approved", "rejected"])
def test_an_edited_change_is_a_new_version_and_submitted_again(status: str) -> None:
    change = read_change(stored(status=status))
    after = edited(change, stored(changeMetadata__title="Another"), by="bob", replaces="v-one")
    assert (after.version, after.status, after.modified_by) == (2, Status.SUBMITTED, "bob")
    assert after.change_id == change.change_id
    assert after.modifications[-1].detail == {"version": 2, "was": status, "replaces": "v-one"}


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_what_has_ended_is_not_edited(status: str) -> None:
    with pytest.raises(BadInput, match="can't be edited"):
        edited(read_change(stored(status=status)), stored(changeMetadata__title="Another"), by="bob")


def test_an_edit_without_a_difference_is_no_version() -> None:
    change = read_change(stored(status="approved"))
    assert edited(change, change.as_json(), by="bob") is change


def test_a_customer_that_takes_another_name_makes_no_version() -> None:
    change = read_change(stored("acorn", changeMetadata__customerNames=["Acorn"]))
    renamed = stored("acorn", changeMetadata__customerNames=["Acorn and Sons"])
    assert edited(change, renamed, by="bob") is change
    assert edited(change, stored("acorn"), by="bob") is change


def test_differences_name_each_field() -> None:
    before, after = stored(), stored(changeMetadata__title="Another", changeMetadata__tickets__jira=None)
    found = {each.field: (each.before, each.after) for each in differences(before, after) if each.field != "changeId"}
    assert found == {
        "changeMetadata.title": ("Move the reports to the new database", "Another"),
        "changeMetadata.tickets.jira": ("OPS-1", None),
    }


NAME = st.sampled_from("abc")
JSON = st.recursive(st.none() | st.integers(0, 3), lambda inner: st.dictionaries(NAME, inner, max_size=3), max_leaves=6)


@given(st.dictionaries(NAME, JSON), st.dictionaries(NAME, JSON))
def test_equal_documents_and_only_they_have_no_differences(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not list(differences(one, one))
    if not list(differences(one, other)):
        assert without_nothing(one) == without_nothing(other)


def without_nothing(value: Any) -> Any:
    """None and an empty object are the same as not being there."""
    if not isinstance(value, dict):
        return value
    kept = {name: without_nothing(inner) for name, inner in value.items()}
    return {name: inner for name, inner in kept.items() if inner is not None and inner != {}} or None


@pytest.mark.parametrize(
    ("status", "version", "told", "expected"),
    [
        ("submitted", 1, False, Notice("aws-approval", "approval-request")),
        ("submitted", 2, True, Notice("aws-approval", "updated")),
        ("submitted", 2, False, Notice("aws-approval", "approval-request")),  # a customer added by the edit
        ("approved", 1, True, Notice("aws-announce", "approved")),
        ("completed", 3, True, Notice("aws-announce", "completed")),
        ("cancelled", 1, True, Notice("aws-announce", "cancelled")),
        ("cancelled", 1, False, None),
        ("rejected", 1, True, None),
        ("draft", 1, False, None),
    ],
)
def test_the_topic_follows_the_status(status: str, version: int, told: bool, expected: Notice | None) -> None:
    assert decide(read_change(stored(status=status, version=version)), told=told) == expected


def test_a_setting_keeps_silence_over_cancelled_changes() -> None:
    assert decide(read_change(stored(status="cancelled")), told=True, tell_cancelled=False) is None


def test_earlier_notices_are_those_before_this_one() -> None:
    keys = [
        key.partition(":")[2].partition(":")[2]
        for key in earlier_keys(read_change(stored(status="approved", version=2)), "acorn")
    ]
    assert keys == ["1:submitted:acorn", "1:approved:acorn", "2:submitted:acorn"]


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_no_two_notices_wait_for_each_other(status: Status, version: int) -> None:
    change = read_change(stored(status=status.value, version=version))
    assert notice_key(change, "acorn") not in set(earlier_keys(change, "acorn"))


class Life(RuleBasedStateMachine):
    """Any order of steps: versions only grow, what was noted stays, and in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.change = read_change(stored(status="draft"))
        self.before = self.change

    def _then(self, after: Any) -> None:
        self.before, self.change = self.change, after

    @rule(to=st.sampled_from(list(Status)))
    def step(self, to: Status) -> None:
        try:
            self._then(moved(self.change, to, by="ann"))
        except BadInput:
            assert (self.change.status.value, to.value) not in ALLOWED

    @rule(title=st.sampled_from(["a", "b"]))
    def edit(self, title: str) -> None:
        try:
            self._then(edited(self.change, stored(changeMetadata__title=title), by="ann"))
        except BadInput:
            assert self.change.status in (Status.COMPLETED, Status.CANCELLED)

    @rule(key=st.sampled_from(["x", "y"]))
    def note(self, key: str) -> None:
        self._then(noted(self.change, Modification(at=now(), by="postroom", type="processed", key=key)))

    @invariant()
    def nothing_is_lost(self) -> None:
        earlier = self.before.modifications
        assert self.change.modifications[: len(earlier)] == earlier
        assert self.change.version >= self.before.version
        keys = [each.key for each in self.change.modifications]
        assert len(keys) == len(set(keys))
        assert read_change(self.change.as_json()) == self.change


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)

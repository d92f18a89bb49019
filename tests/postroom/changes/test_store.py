"""The archive is written first and on conditions: nothing that was written is lost."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.changes.amends import Amends
from postroom.changes.model import Change, Modification, Status, now
from postroom.changes.notices import notice_key
from postroom.changes.shelf import Kept, Shelf, Taken
from postroom.changes.store import ChangeStore, archive_key, draft_key, open_store, trigger_key
from postroom.errors import AuthFailed, BadInput, Conflict, Missing, Unavailable
from postroom.ledger.book import open_book
from tests.postroom.changes.samples import written

MANY = 30


class Naive(Shelf):
    """Read, modify, write, and hope: what the conditions are there to prevent."""

    def write(self, key: str, document: Mapping[str, Any], *, over: str | None, always: bool = False) -> Kept:
        return super().write(key, document, over=over, always=True)


class Broken(Shelf):
    """Refuses to write keys that begin so."""

    refuses = ""

    def write(self, key: str, document: Mapping[str, Any], *, over: str | None, always: bool = False) -> Kept:
        if self.refuses and key.startswith(self.refuses):
            raise AuthFailed(f"{key} may not be written")
        return super().write(key, document, over=over, always=always)


@pytest.fixture
def store(provisioned: Names) -> ChangeStore:
    return open_store()


def keys(store: ChangeStore, prefix: str = "") -> set[str]:
    found = store.shelf.s3.list_objects_v2(Bucket=store.shelf.bucket, Prefix=prefix).get("Contents", [])
    return {each["Key"] for each in found if not each["Key"].startswith(".")}


def entry(code: str) -> Modification:
    return Modification(at=now(), by="postroom", type="processed", customer=code, key=f"processed:{code}")


def everybody_records(store: ChangeStore) -> int:
    """How many of the entries that were recorded at the same time are there in the end."""
    codes = [f"customer-{number}" for number in range(MANY)]
    change = store.submit(written(*codes), by="ann")
    together = threading.Barrier(MANY)

    def record(code: str) -> None:
        together.wait(20)
        store.record(change.change_id, entry(code))

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(record, codes))
    after = store.read(change.change_id).modifications
    return len({each.customer for each in after if each.type == "processed"})


def test_thirty_customers_that_record_at_once_lose_nothing(store: ChangeStore) -> None:
    assert everybody_records(store) == MANY


def test_without_conditions_entries_are_lost(store: ChangeStore) -> None:
    """Proves that the test above can fail."""
    assert everybody_records(ChangeStore(Naive(store.shelf.s3, store.shelf.bucket))) < MANY


def test_an_entry_recorded_twice_is_there_once(store: ChangeStore) -> None:
    change = store.submit(written(), by="ann")
    store.record(change.change_id, entry("acorn"))
    store.record(change.change_id, entry("acorn"))
    assert [each.type for each in store.read(change.change_id).modifications] == ["submitted", "processed"]


def test_a_submitted_change_is_in_the_archive_with_a_trigger_for_each_customer(store: ChangeStore) -> None:
    change = store.submit(written("acorn", "birch"), by="ann")
    assert (change.status, change.version, change.created_by) == (Status.SUBMITTED, 1, "ann")
    assert keys(store) == {
        archive_key(change.change_id),
        trigger_key("acorn", change.change_id),
        trigger_key("birch", change.change_id),
    }


def test_a_draft_keeps_its_id_and_goes_when_it_is_submitted(store: ChangeStore) -> None:
    draft = store.draft({"changeMetadata": {"title": "Half a thought"}}, by="ann")
    assert keys(store) == {draft_key(draft["changeId"])}
    draft = store.draft({**written(), "changeId": draft["changeId"]}, by="bob")
    assert (draft["createdBy"], draft["modifiedBy"], draft["status"]) == ("ann", "bob", "draft")
    change = store.submit(draft, by="bob")
    assert change.change_id == draft["changeId"]
    assert change.created_by == "ann"
    assert keys(store, "drafts/") == set()


def test_a_draft_may_be_incomplete_but_not_wrong(store: ChangeStore) -> None:
    store.draft({}, by="ann")
    with pytest.raises(BadInput, match="bad-timezone"):
        store.draft(written(changeMetadata__schedule__timezone="Mars/Olympus"), by="ann")


def test_without_the_archive_there_is_no_trigger_and_the_draft_stays(store: ChangeStore) -> None:
    draft = store.draft(written(), by="ann")
    shelf = Broken(store.shelf.s3, store.shelf.bucket)
    shelf.refuses = "archive/"
    with pytest.raises(AuthFailed):
        ChangeStore(shelf).submit(draft, by="ann")
    assert keys(store) == {draft_key(draft["changeId"])}


def test_a_trigger_that_could_not_be_written_is_made_up_for(store: ChangeStore) -> None:
    shelf = Broken(store.shelf.s3, store.shelf.bucket)
    shelf.refuses = "customers/birch/"
    document = {**written("acorn", "birch", "cedar"), "changeId": "chg-1"}
    with pytest.raises(Unavailable, match=r"birch could not be told.*postroom change submit chg-1"):
        ChangeStore(shelf).submit(document, by="ann")
    assert keys(store, "customers/") == {trigger_key("acorn", "chg-1"), trigger_key("cedar", "chg-1")}
    assert store.submit(document, by="ann").version == 1
    assert trigger_key("birch", "chg-1") in keys(store, "customers/")


def test_an_id_is_submitted_once(store: ChangeStore) -> None:
    store.submit({**written(), "changeId": "chg-2"}, by="ann")
    with pytest.raises(BadInput, match="there is a change chg-2 already"):
        store.submit({**written(changeMetadata__title="Another"), "changeId": "chg-2"}, by="bob")
    with pytest.raises(BadInput, match="submitted already"):
        store.draft({**written(), "changeId": "chg-2"}, by="ann")


def test_two_who_submit_the_same_id_at_once_make_one_change(store: ChangeStore) -> None:
    together = threading.Barrier(8)

    def submit(number: int) -> str:
        together.wait(20)
        try:
            return str(store.submit({**written(changeMetadata__title=f"By {number}"), "changeId": "chg-3"}, by="x"))
        except BadInput:
            return ""

    with ThreadPoolExecutor(8) as pool:
        assert len([each for each in pool.map(submit, range(8)) if each]) == 1


def test_every_version_is_kept_and_compared(store: ChangeStore) -> None:
    change_id = store.submit(written(), by="ann").change_id
    store.move(change_id, Status.APPROVED, by="bob")
    store.record(change_id, entry("acorn"))
    second = store.update({**written(changeMetadata__title="Two"), "changeId": change_id}, by="cleo")
    assert not isinstance(second, dict)
    assert (second.version, second.status) == (2, Status.SUBMITTED)
    store.update({**written(changeMetadata__title="Three"), "changeId": change_id}, by="dora")
    assert [(each.version, each.by) for each in store.versions(change_id)] == [(1, "ann"), (2, "cleo"), (3, "dora")]
    first = store.read_version(change_id, 1)
    assert first.status is Status.APPROVED  # its last state
    assert first.modifications[-1].customer == "acorn"
    assert [(d.field, d.before, d.after) for d in store.compare(change_id, 2, 3)] == [
        ("changeMetadata.title", "Two", "Three")
    ]
    with pytest.raises(Missing, match="no version 4"):
        store.read_version(change_id, 4)


def test_an_edit_of_an_older_version_is_refused(store: ChangeStore) -> None:
    change_id = store.submit(written(), by="ann").change_id
    store.update({**written(changeMetadata__title="Two"), "changeId": change_id, "version": 1}, by="ann")
    with pytest.raises(Conflict, match="is at version 2 by now; this edit is of version 1"):
        store.update({**written(changeMetadata__title="Mine"), "changeId": change_id, "version": 1}, by="bob")


class Forgetful(Shelf):
    """The first write of the archive is done, and its answer lost; the second try finds another ETag."""

    lost = False

    def write(self, key: str, document: Mapping[str, Any], *, over: str | None, always: bool = False) -> Kept:
        kept = super().write(key, document, over=over, always=always)
        if key.startswith("archive/") and over and not self.lost:
            self.lost = True
            raise Taken(key)
        return kept


def test_an_edit_whose_answer_was_lost_is_no_conflict(store: ChangeStore) -> None:
    change = store.submit(written(), by="ann")
    forgetful = ChangeStore(Forgetful(store.shelf.s3, store.shelf.bucket))
    edit = {**written(changeMetadata__title="Another"), "changeId": change.change_id, "version": 1}
    saved = forgetful.update(edit, by="ann")
    assert isinstance(saved, Change)
    assert (saved.version, saved.change_metadata.title) == (2, "Another")
    assert len(store.versions(change.change_id)) == 2
    with pytest.raises(Conflict):
        store.update(edit, by="bob")  # somebody else's is
    with pytest.raises(Conflict):
        store.update({**edit, **written(changeMetadata__title="A third")}, by="ann")


def test_an_approval_is_of_a_version(store: ChangeStore) -> None:
    change_id = store.submit(written(), by="ann").change_id
    store.update({**written(changeMetadata__title="Two"), "changeId": change_id}, by="ann")
    with pytest.raises(Conflict, match="version 2 by now, not 1"):
        store.move(change_id, Status.APPROVED, by="bob", version=1)


def test_a_step_writes_new_triggers_and_taking_it_twice_changes_nothing(store: ChangeStore) -> None:
    change_id = store.submit(written("acorn"), by="ann").change_id
    before = store.shelf.tag(trigger_key("acorn", change_id))
    store.move(change_id, Status.APPROVED, by="bob")
    approved = store.read(change_id)
    assert store.shelf.tag(trigger_key("acorn", change_id)) != before
    store.move(change_id, Status.APPROVED, by="eve")
    assert store.read(change_id) == approved


def test_a_trigger_is_removed_only_if_it_is_still_the_same(store: ChangeStore) -> None:
    change_id = store.submit(written("acorn"), by="ann").change_id
    key = trigger_key("acorn", change_id)
    processed = store.shelf.tag(key)
    assert processed
    store.move(change_id, Status.APPROVED, by="bob")
    assert not store.shelf.remove(key, only=processed)
    newer = store.shelf.tag(key)
    assert newer
    assert store.shelf.remove(key, only=newer)
    assert store.shelf.tag(key) is None


def test_a_cancelled_draft_is_not_submitted(store: ChangeStore) -> None:
    change_id = store.draft(written(), by="ann")["changeId"]
    store.move(change_id, Status.CANCELLED, by="ann")
    with pytest.raises(BadInput, match="is cancelled"):
        store.submit({**written(), "changeId": change_id}, by="ann")
    with pytest.raises(BadInput, match="is draft and can't become approved"):
        store.move(store.draft(written(), by="ann")["changeId"], Status.APPROVED, by="ann")


def test_unknown_customers_are_refused_before_anything_is_written(provisioned: Names) -> None:
    store = open_store(known={"acorn", "birch"})
    with pytest.raises(BadInput, match="unknown-customer"):
        store.submit(written("acorn", "elm"), by="ann")
    change_id = store.submit(written("acorn"), by="ann").change_id
    with pytest.raises(BadInput, match="unknown-customer"):
        store.update({**written("elm"), "changeId": change_id}, by="ann")
    assert store.read(change_id).version == 1


@pytest.mark.parametrize("change_id", ["../x", "a/b", ".hidden", "", "x" * 300])
def test_ids_that_could_name_another_object_are_refused(provisioned: Names, change_id: str) -> None:
    with pytest.raises(BadInput, match="changeId"):
        open_store().read(change_id)


def test_an_object_that_is_no_change_is_said_to_be_so(store: ChangeStore) -> None:
    client("s3").put_object(Bucket=store.shelf.bucket, Key=archive_key("odd"), Body=b"[1]")
    with pytest.raises(BadInput, match="no JSON object"):
        store.read("odd")
    with pytest.raises(Missing, match="no change even-odder"):
        store.read("even-odder")


def test_customers_forgotten_by_a_writer_that_died_are_told_of_later_and_nobody_twice(
    store: ChangeStore, provisioned: Names
) -> None:
    book = open_book()
    change = store.submit(written(), by="ann@example.com")
    assert Amends(rest=timedelta()).make(book, store) == 0  # its triggers are there
    first, *others = change.codes
    for code in others:
        store.shelf.s3.delete_object(Bucket=store.shelf.bucket, Key=trigger_key(code, change.change_id))
    store.record(change.change_id, Modification(at=now(), by="p", type="processed", customer=others[0],
                                                key=notice_key(change, others[0])))  # fmt: skip
    amends = Amends(rest=timedelta())
    assert amends.make(book, store) == len(others) - 1
    there = keys(store, "customers/")
    assert there == {trigger_key(code, change.change_id) for code in (first, *others[1:])}
    assert amends.make(book, store) == 0


def test_a_trigger_left_over_from_an_older_version_does_not_stand_for_the_new_one(
    store: ChangeStore, provisioned: Names
) -> None:
    change = store.submit(written("acorn"), by="ann")
    key = trigger_key("acorn", change.change_id)
    left_over = store.shelf.read(key).document
    store.update({**written("acorn", changeMetadata__title="Two"), "changeId": change.change_id}, by="ann")
    store.shelf.write(key, left_over, over=None, always=True)  # as if that writer had died before its trigger
    amends = Amends(rest=timedelta())
    assert amends.make(open_book(), store) == 1
    assert store.shelf.read(key).document["version"] == 2
    assert amends.make(open_book(), store) == 0


def test_a_change_with_a_long_history_can_still_be_read_and_a_huge_one_is_never_written(store: ChangeStore) -> None:
    with pytest.raises(BadInput, match="larger than 1000000 bytes"):
        store.submit({**written(), "changeMetadata": {"title": "x" * 1_000_000}}, by="ann")
    change = store.submit(written(), by="ann")
    said = {"said": "x" * 500_000}
    for n in range(3):
        store.record(change.change_id, Modification(at=now(), by="b", type="noted", key=f"n{n}", detail=said))
    assert len(store.read(change.change_id).modifications) == 4
    assert store.move(change.change_id, Status.APPROVED, by="bob")

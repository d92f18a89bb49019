"""Events on their way to the bus."""

from typing import Any

from postroom.ledger import Book, Event


def test_events_are_put_on_the_bus_in_bites_that_it_can_swallow(book: Book) -> None:
    for n in range(4):
        book.events.append(Event("Task Failed", f"TASK#{n}", "task", {"reason": "ä" * 60_000}))
    bites: list[list[int]] = []

    def seen(params: dict[str, Any], **_: Any) -> None:
        bites.append([len(entry["Detail"].encode()) for entry in params["Entries"]])

    hooks = book.events._bus.meta.events
    hooks.register("provide-client-params.*.PutEvents", seen)
    try:
        assert book.events.tell() == 4
    finally:
        hooks.unregister("provide-client-params.*.PutEvents", seen)
    assert len(bites) == 4
    assert all(sum(bite) < 250_000 for bite in bites)
    assert book.events.tell() == 0

"""What the light worker borrows from inside Prefect is still there, in the version it was written for."""

import asyncio
import inspect
import threading

import prefect
import pytest
from prefect import _flow_run_suspension, flow_engine
from prefect.exceptions import TerminationSignal
from prefect.workers.base import BaseWorker

from postroom.errors import Misconfigured
from workers import prefect_inside

READ_AGAIN = "Prefect changed: read workers/prefect_inside.py against the new version before raising its VERSION"


def test_it_is_written_for_the_installed_prefect() -> None:
    assert prefect.__version__ == prefect_inside.VERSION, READ_AGAIN


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect, "__version__", "3.99.0")
    with pytest.raises(Misconfigured, match=r"3\.99\.0"):
        prefect_inside.settle_in()


def test_the_engine_asks_for_the_intent_and_observes_suspension_by_those_names() -> None:
    source = inspect.getsource(flow_engine)
    assert 'if intent == "cancel":' in source, READ_AGAIN
    assert "_termination_intent() in _SUPERVISOR_OWNED_INTENTS" in source, READ_AGAIN
    assert frozenset({"reschedule", "relinquish"}) == flow_engine._SUPERVISOR_OWNED_INTENTS, READ_AGAIN
    assert "observe_flow_run_suspension(\n" in source, READ_AGAIN
    assert list(inspect.signature(_flow_run_suspension.mark_flow_run_suspension_requested).parameters) == [
        "flow_run_id",
        "state",
    ], READ_AGAIN
    setup = inspect.getsource(BaseWorker)
    for name in ("self._last_polled_time", "self._work_queues", "self._work_pool_name", "self._work_pool"):
        assert name in setup, READ_AGAIN


def test_an_intent_belongs_to_one_desk_only() -> None:
    prefect_inside.settle_in()
    seen: list[object] = []

    def sit() -> None:
        with prefect_inside.at_desk():
            prefect_inside.set_intent(threading.get_ident(), "cancel")
            seen.append(flow_engine._termination_intent())

    desk = threading.Thread(target=sit)
    desk.start()
    desk.join()
    assert seen == ["cancel"]
    assert flow_engine._termination_intent() is None


async def test_an_error_thrown_into_a_thread_arrives_there() -> None:
    caught: list[BaseException] = []
    began = threading.Event()

    def sit() -> None:
        try:
            began.set()
            while True:
                threading.Event().wait(0.01)
        except TerminationSignal as error:
            caught.append(error)

    thread = threading.Thread(target=sit)
    thread.start()
    began.wait(5)
    prefect_inside.throw_into(thread.ident or 0, prefect_inside.Recalled)
    await asyncio.to_thread(thread.join, 5)
    assert isinstance(caught[0], prefect_inside.Recalled)

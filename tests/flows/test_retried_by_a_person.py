"""Who scheduled a run: a person's Retry opens its work anew, everything else goes on with what there is."""

import uuid

import pytest
from prefect import flow, get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.flow_engine import run_flow
from prefect.states import AwaitingRetry, Cancelled, Crashed, Failed, Late, Pending, Running, Scheduled

from flows.once import HANDED_BACK, RESCHEDULED, Subject, once, retried_by_a_person
from postroom.aws.names import Names
from postroom.ledger import Book, Granted, Holding, Lease, State
from postroom.settings import settings

NEW = [Scheduled(), Pending(), Running()]
BUTTON = AwaitingRetry(message="Retry from the UI")
COMMAND = Scheduled(message="Retried via CLI")
SWEEPER = Scheduled(name=RESCHEDULED, message="attempt 2; it was Failed")
LIGHT = AwaitingRetry(message=f"{HANDED_BACK} 'light', which was stopped.")
CONTAINER = AwaitingRetry()  # PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR=reschedule
WAITS = Scheduled(name="AwaitingConcurrencySlot")
STARTED = [Pending(), Running()]


@pytest.mark.parametrize(
    ("states", "by_a_person"),
    [
        (NEW, False),
        ([*NEW, Failed(), BUTTON, *STARTED], True),
        ([*NEW, Crashed(), COMMAND, *STARTED], True),
        ([Scheduled(), Cancelled(), BUTTON, *STARTED], True),
        ([*NEW, Failed(), BUTTON, Late(), Pending(), WAITS, *STARTED], True),
        ([*NEW, Failed(), BUTTON, *STARTED, LIGHT, *STARTED], True),
        ([*NEW, CONTAINER, *STARTED], False),
        ([*NEW, LIGHT, *STARTED], False),
        ([*NEW, Failed(), SWEEPER, *STARTED], False),
        ([*NEW, SWEEPER, *STARTED, CONTAINER, *STARTED], False),
        ([*NEW, Failed(), BUTTON, *STARTED, Failed(), SWEEPER, *STARTED], False),
    ],
)
def test_a_retry_is_told_from_every_other_way_to_be_scheduled(states: list[PrefectState], by_a_person: bool) -> None:
    assert retried_by_a_person(states) is by_a_person


async def moved(key: str) -> PrefectState:
    """How a run ends that a container handed back, and another container takes."""

    async def body(holding: Holding) -> dict[str, int]:
        return {"left": holding.lease.row.max_attempts - holding.lease.attempt}

    @flow
    async def work() -> dict[str, int]:
        return await once(Subject(key, "task", "Task", "TASK#x"), body)

    async with get_client() as client:
        run = await client.create_flow_run(work, state=Scheduled())
        for state in (Running(), CONTAINER):
            await client.set_flow_run_state(run.id, state, force=True)
        run = await client.read_flow_run(run.id)
    return await run_flow(work, flow_run=run, return_type="state")  # type: ignore[misc]


@pytest.fixture
def lease(provisioned: Names, prefect_server: str) -> Lease:
    begun = Book(settings()).leases.start(f"task:{uuid.uuid4().hex}", "task", "the first container")
    assert isinstance(begun, Granted)
    return begun.lease


async def test_a_container_that_is_told_to_stop_costs_no_attempts(lease: Lease) -> None:
    Book(settings()).leases.hand_back(lease)
    assert await (await moved(lease.key)).result() == {"left": 2}


async def test_what_has_failed_is_not_begun_anew_because_its_container_was_moved(lease: Lease) -> None:
    Book(settings()).leases.finish(lease, State.FAILED, reason="torn")
    assert (await moved(lease.key)).is_failed()
    assert Book(settings()).leases.read(lease.key).state is State.FAILED

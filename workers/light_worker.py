"""What the light worker does with runs: takes them when announced, gives each a desk, sees each to its end."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import anyio.abc
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import Abort, InfrastructureNotFound, ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled, Crashed
from prefect.utilities.engine import propose_state
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult

from flows.once import HANDED_BACK
from postroom.errors import sanitise
from postroom.logs import correlate
from postroom.settings import settings
from workers import prefect_inside
from workers.announcements import Announcement, announcements
from workers.desk import Body, Desk
from workers.logs import correlation_of
from workers.prefect_inside import Intent
from workers.shelf import Shelf

BREATH_SECONDS = 0.05  # between two rounds of asking, so that a burst is taken in handfuls
WATCH_SECONDS = 0.5  # how often cancellation is looked for besides being announced
RECALL_AGAIN_SECONDS = 5.0  # each call interrupts whatever a body does to end well
LAST_MOMENT_SECONDS = 2.5  # for bodies to let go after the grace time, when the worker stops


class LightResult(BaseWorkerResult):
    """How a run on the light worker ended."""


class LightWorker(BaseWorker[BaseJobConfiguration, BaseVariables, LightResult]):
    """Carries out deployment runs in this process, one desk each."""

    type = "light"
    job_configuration = BaseJobConfiguration
    job_configuration_variables = BaseVariables
    _description = "Carries out short flows inside the worker's own process: no start-up time, no polling delay."

    def __init__(self, work_pool_name: str, *args: Any, limit: int | None = None, **more: Any) -> None:
        prefect_inside.settle_in()
        super().__init__(work_pool_name, *args, limit=limit, **more)
        self.limit = limit or settings().light_limit
        self.bodies: dict[UUID, tuple[Body, Desk]] = {}
        self._shelf = Shelf()
        self._free: list[Desk] = []
        self._left_behind = 0
        self._numbers = itertools.count(1)
        self._asked = asyncio.Event()
        self._more_waiting = False
        self._round = asyncio.Lock()
        self._closing = False
        self._chores: set[asyncio.Task[Any]] = set()
        self._ends: set[asyncio.Task[Any]] = set()
        self._due: asyncio.TimerHandle | None = None

    # -- taking runs

    async def setup(self) -> None:
        """Also listens for announcements, and watches for cancellation."""
        await super().setup()
        for chore in (self._listen, self._take_rounds, self._watch):
            self._start(chore(), self._chores)

    async def _listen(self) -> None:
        while True:
            try:
                pool = self.work_pool.id
            except RuntimeError:  # the server could not be reached yet; the worker goes on trying
                await asyncio.sleep(0.5)
                continue
            async for announcement in announcements(pool):
                try:
                    await self._hear(announcement)
                except Exception as error:  # one that can't be followed must not make us deaf to the others
                    self._logger.warning("announcement %s: %s", announcement, sanitise(repr(error)))

    async def _hear(self, announcement: Announcement) -> None:
        match announcement.what:
            case "scheduled" | "connected":
                self.nudge()
            case "cancelling" if announcement.about in self.bodies:
                self._start(self._recall(announcement.about, "cancel"), self._ends)
            case "cancelled" if announcement.about in self.bodies:
                self._start(self._recall(announcement.about, "relinquish"), self._ends)
            case "suspended" if announcement.about in self.bodies:
                run = await self.client.read_flow_run(announcement.about)
                if run.state and run.state.is_paused():
                    prefect_inside.suspend(run.id, run.state)
            case "redeployed" if announcement.about:
                self._shelf.forget(announcement.about)

    def nudge(self) -> None:
        """Makes the worker ask for runs now."""
        self._asked.set()

    async def _take_rounds(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self.get_and_submit_flow_runs()
            except Exception as error:
                self._logger.warning("could not ask for runs: %s", sanitise(repr(error)))
                await asyncio.sleep(1)
                self.nudge()
            await asyncio.sleep(BREATH_SECONDS)

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Asks the server for runs that are due, begins as many as there are free desks, and returns those."""
        async with self._round:
            prefect_inside.has_polled(self)
            room = self.limit - len(self.bodies)
            self._more_waiting = room <= 0
            if self._closing or room <= 0:
                return []
            now = datetime.now(UTC)
            try:
                found = await self.client.get_scheduled_flow_runs_for_work_pool(
                    prefect_inside.pool_of(self),
                    work_queue_names=prefect_inside.queues_of(self),
                    scheduled_before=now + timedelta(seconds=settings().light_poll_seconds + 1),
                )
            except ObjectNotFound:
                return []  # the pool is made with the next heartbeat
            runs = [each.flow_run for each in found if each.flow_run.id not in self.bodies]
            due = [run for run in runs if (run.next_scheduled_start_time or now) <= now]
            self._wake_for(run.next_scheduled_start_time for run in runs if run not in due)
            self._more_waiting = len(due) > room
            for run in due[:room]:
                self._begin(run)
            return due[:room]

    def _wake_for(self, times: Any) -> None:
        """Asks again when the next run becomes due, not an interval later."""
        if self._due is not None:
            self._due.cancel()
        times = [each for each in times if each is not None]
        if times:
            wait = max((min(times) - datetime.now(UTC)).total_seconds(), 0)
            self._due = asyncio.get_running_loop().call_later(wait + 0.001, self.nudge)

    def _begin(self, run: FlowRun) -> Body:
        body = Body(run, self.name)
        desk = self._free.pop() if self._free else Desk(f"desk-{next(self._numbers)}", self._shelf)
        self.bodies[run.id] = (body, desk)
        desk.take(body)
        self._start(self._see_off(body, desk), self._ends)
        return body

    async def _see_off(self, body: Body, desk: Desk) -> None:
        """Waits for the body's end and sees that its run has one too."""
        error = await asyncio.wrap_future(body.over)
        if self.bodies.get(body.run.id, (None,))[0] is not body:
            desk.close()  # it was left behind, and its run has been ended
            self._left_behind -= 1
            return
        try:
            await self._conclude(body, error)
        except Exception as failed:
            self._logger.error("the end of run %s could not be reported: %s", body.run.id, sanitise(repr(failed)))
        finally:
            self.bodies.pop(body.run.id, None)
            self._free.append(desk)
            if self._more_waiting or (self._work_pool and self._work_pool.concurrency_limit):
                self.nudge()

    async def _conclude(self, body: Body, error: BaseException | None) -> None:
        """Gives the run the state that the engine did not."""
        if error is None and body.recalled is None:
            return
        if isinstance(error, Abort):
            return  # the server told the engine to leave it
        state = (await self.client.read_flow_run(body.run.id)).state
        if state is None or state.is_final() or state.is_paused():
            return
        with correlate(correlation_of(body.run)):
            match body.recalled:
                case "cancel":
                    message = "Cancelled before its body began." if not body.engine_began else "Cancelled."
                    await self.client.set_flow_run_state(body.run.id, Cancelled(message=message), force=True)
                case "reschedule":
                    await self._hand_back(body)
                case None if not state.is_scheduled():
                    said = sanitise(f"{type(error).__name__}: {error}")
                    await propose_state(self.client, Crashed(message=f"The body died: {said}"), flow_run_id=body.run.id)

    async def _hand_back(self, body: Body) -> None:
        again = AwaitingRetry(message=f"{HANDED_BACK} {self.name!r}, which was stopped.")
        await self.client.set_flow_run_state(body.run.id, again, force=True)

    # -- ending bodies

    async def _watch(self) -> None:
        """Looks for cancellation of what has run for a while, in case an announcement was missed."""
        began: dict[UUID, float] = {}
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            began = {run: began.get(run, time.monotonic()) for run in self.bodies}
            old = [run for run, since in began.items() if time.monotonic() - since >= WATCH_SECONDS]
            if not old:
                continue
            wanted = FlowRunFilter(
                id=FlowRunFilterId(any_=old),
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLING, StateType.CANCELLED])),
            )
            try:
                for run in await self.client.read_flow_runs(flow_run_filter=wanted):
                    intent: Intent = "cancel" if run.state_type == StateType.CANCELLING else "relinquish"
                    self._start(self._recall(run.id, intent), self._ends)
            except Exception as error:
                self._logger.debug("could not look for cancelled runs: %r", error)

    async def _recall(self, run: UUID, intent: Intent) -> None:
        """Ends a body; one that does not let go is left behind with its desk, and its run is ended."""
        body, desk = self.bodies.get(run, (None, None))
        if body is None or desk is None or body.recalled:
            return
        deadline = time.monotonic() + settings().light_cancel_seconds
        while not body.over.done() and time.monotonic() < deadline:
            desk.recall(body, intent)
            # Not yet at its desk; or it swallowed the call, but it may as well be busy tidying up.
            pause = 0.02 if body.recalled is None else RECALL_AGAIN_SECONDS
            left = max(deadline - time.monotonic(), 0)
            await asyncio.wait([asyncio.wrap_future(body.over)], timeout=min(pause, left))
        if not body.over.done():
            self._leave_behind(body)
            message = "Cancelled, but its body did not let go: what it was doing may still go on for a while."
            self._logger.error("run %s does not end when cancelled; its thread was left behind", run)
            await self.client.set_flow_run_state(run, Cancelled(message=message), force=True)

    def _leave_behind(self, body: Body) -> None:
        self.bodies.pop(body.run.id, None)
        self._left_behind += 1
        self.nudge()

    async def teardown(self, *exc_info: Any) -> None:
        """Takes no more runs, lets bodies finish for a while, hands the rest back, then leaves."""
        self._closing = True
        for chore in self._chores:
            chore.cancel()
        interrupted = bool(exc_info and exc_info[0])
        await self._wait_for_bodies(settings().light_grace_seconds if interrupted else None)
        rest = [body for body, _ in self.bodies.values()]
        for body, desk in list(self.bodies.values()):
            if not body.recalled:  # one that was told to let go is about to
                desk.recall(body, "reschedule")
        await self._wait_for_bodies(LAST_MOMENT_SECONDS)
        for body in rest:
            if body.run.id in self.bodies:  # it does not let go: with this process it will
                self._leave_behind(body)
                try:
                    await self._hand_back(body)
                except Exception as error:  # the sweeper will find it
                    self._logger.error("run %s could not be handed back: %s", body.run.id, sanitise(repr(error)))
        for desk in self._free:
            desk.close()
        await super().teardown(*exc_info)

    async def _wait_for_bodies(self, seconds: float | None) -> None:
        if ends := set(self._ends):
            await asyncio.wait(ends, timeout=seconds)

    # -- what Prefect asks of any worker

    async def run(
        self,
        flow_run: FlowRun,
        configuration: BaseJobConfiguration,
        task_status: anyio.abc.TaskStatus[int] | None = None,
    ) -> LightResult:
        """Carries out one run and returns when it is over."""
        body = self._begin(flow_run)
        if task_status:
            task_status.started(0)
        error = await asyncio.wrap_future(body.over)
        return LightResult(identifier=str(flow_run.id), status_code=1 if error else 0)

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: BaseJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Ends the body of a run."""
        try:
            await self._recall(UUID(infrastructure_pid), "cancel")
        except ValueError:
            raise InfrastructureNotFound(f"{infrastructure_pid!r} is not a run of this worker") from None

    @staticmethod
    def _start(work: Any, among: set[asyncio.Task[Any]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)

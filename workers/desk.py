"""A desk: one thread with an event loop and warm API clients, at which one run at a time is carried out.

Each body has a desk to itself, so a synchronous task or a busy loop in one flow holds up no other run, nor
the worker's own ear for cancellations.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any

from prefect import Flow, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import AsyncClientContext, SyncClientContext
from prefect.exceptions import Abort, ObjectNotFound
from prefect.flow_engine import run_flow
from prefect.logging.loggers import flow_run_logger
from prefect.states import Cancelled, Crashed, Pending
from prefect.utilities.engine import propose_state

from postroom.errors import sanitise
from postroom.logs import correlate
from workers import prefect_inside
from workers.beats import beating_in_time
from workers.logs import correlation_of
from workers.prefect_inside import Intent, Recalled
from workers.shelf import Shelf


class Body:
    """A run that has a desk: its end can be awaited, or asked for."""

    def __init__(self, run: FlowRun, worker: str) -> None:
        self.run = run
        self.worker = worker
        self.over: Future[BaseException | None] = Future()
        self.recalled: Intent | None = None
        self.engine_began = False


class Desk:
    """Carries out bodies, one after the other, in its own thread."""

    def __init__(self, name: str, shelf: Shelf) -> None:
        self._shelf = shelf
        self._bodies: queue.SimpleQueue[Body | None] = queue.SimpleQueue()
        with beating_in_time():
            self._context = contextvars.copy_context()  # settings of whoever opened the desk
        self._lock = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_sync_body = False
        self._current: Body | None = None
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._sit, name=name, daemon=True)
        self._thread.start()

    def take(self, body: Body) -> None:
        """Begins the body as soon as the desk is free."""
        self._bodies.put(body)

    def close(self) -> None:
        """Ends the thread after what it was given."""
        self._bodies.put(None)

    def recall(self, body: Body, intent: Intent) -> None:
        """Asks the body to end, for a reason; may be repeated."""
        with self._lock:
            if self._current is not body or self._thread.ident is None:
                return
            body.recalled = body.recalled or intent
            prefect_inside.set_intent(self._thread.ident, body.recalled)
            if self._in_sync_body:
                prefect_inside.throw_into(self._thread.ident, Recalled)
            elif self._task is not None and self._loop is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _sit(self) -> None:
        try:
            with prefect_inside.at_desk(), asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                clients = AsyncExitStack()
                while (body := self._bodies.get()) is not None:
                    self._carry_out(body, runner, clients)
                runner.run(clients.aclose(), context=self._context)
        finally:
            self.closed.set()

    def _carry_out(self, body: Body, runner: asyncio.Runner, clients: AsyncExitStack) -> None:
        error: BaseException | None = None
        try:
            with self._lock:
                self._current = body
            runner.run(self._warm(clients), context=self._context)
            context = self._context.copy()  # what a body sets in its context ends with it
            flow = runner.run(self._as_task(self._begin(body)), context=context)
            if flow is not None:
                context.run(self._call, flow, body)
        except BaseException as raised:  # a body may raise anything; the desk outlives it
            error = raised
        finally:
            self._end(body, error)

    def _call(self, flow: Flow[..., Any], body: Body) -> None:
        """Runs a synchronous flow in this thread."""
        with correlate(correlation_of(body.run)):
            with self._lock:
                self._in_sync_body = True
                if body.recalled:
                    raise Recalled
            try:
                result = run_flow(flow, flow_run=body.run, parameters=body.run.parameters, return_type="state")
                if flow.isgenerator:
                    for _ in result:  # type: ignore[union-attr]
                        pass
            finally:
                with self._lock:
                    self._in_sync_body = False
                    prefect_inside.throw_into(threading.get_ident(), None)

    def _end(self, body: Body, error: BaseException | None) -> None:
        with self._lock:
            self._current = self._task = None
            prefect_inside.set_intent(threading.get_ident(), None)
        body.over.set_result(error)

    async def _warm(self, clients: AsyncExitStack) -> None:
        """Opens the API clients once; every run at this desk then finds them in its context."""
        if AsyncClientContext.get() is None:
            await clients.enter_async_context(AsyncClientContext())
            clients.enter_context(SyncClientContext())

    async def _as_task(self, work: Coroutine[Any, Any, Any]) -> Any:
        with self._lock:
            self._task = asyncio.current_task()
            current = self._current
        if current is not None and current.recalled:
            work.close()
            raise asyncio.CancelledError
        try:
            return await work
        finally:
            with self._lock:
                self._task = None

    async def _begin(self, body: Body) -> Flow[..., Any] | None:
        """Claims the run and carries it out if its flow is asynchronous; returns a synchronous one."""
        run, client = body.run, get_client()
        with correlate(correlation_of(run)):
            log = flow_run_logger(run)
            try:
                state = await propose_state(client, Pending(), flow_run_id=run.id)
            except (Abort, ObjectNotFound):
                return None  # somebody else has it, or it is gone
            if not state.is_pending():
                return None
            log.info(f"Worker {body.worker!r} carries out flow run {run.name!r}")
            try:
                flow = await self._shelf.flow_of(client, run)
            except ObjectNotFound:
                gone = Cancelled(message=f"Deployment {run.deployment_id} no longer exists.")
                await client.set_flow_run_state(run.id, gone, force=True)
                return None
            except Exception as error:
                said = sanitise(f"{type(error).__name__}: {error}")
                log.error("The flow could not be loaded", exc_info=True)
                await propose_state(
                    client, Crashed(message=f"The flow could not be loaded: {said}"), flow_run_id=run.id
                )
                return None
            body.engine_began = True
            if not flow.isasync:
                return flow
            result = run_flow(flow, flow_run=run, parameters=run.parameters, return_type="state")
            if flow.isgenerator:
                async for _ in result:  # type: ignore[union-attr]
                    pass
            else:
                await result  # type: ignore[misc]
        return None

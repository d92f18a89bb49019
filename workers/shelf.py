"""Flows that are loaded once and then taken from the shelf."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.flows import load_flow_from_flow_run

from postroom.errors import BadInput

LOOK_AGAIN_SECONDS = 30.0  # how long a deployment is believed unchanged when nobody announced a change


@dataclass
class _Book:
    flow: Flow[..., Any]
    edition: tuple[Any, ...]
    looked: float


class Shelf:
    """The flows of one worker, by deployment; threads may share it."""

    def __init__(self) -> None:
        self._books: dict[UUID, _Book] = {}
        self._loading = threading.Lock()  # loading changes the working directory, which is the whole process's

    def forget(self, deployment: UUID) -> None:
        """The deployment changed: look at it again before its next run."""
        if book := self._books.get(deployment):
            book.looked = float("-inf")

    async def flow_of(self, client: PrefectClient, run: FlowRun) -> Flow[..., Any]:
        """The flow a run executes; loaded when its deployment has a new version, entrypoint or source."""
        if run.deployment_id is None:
            raise BadInput(f"run {run.id} has no deployment: the light worker runs deployments only")
        book = self._books.get(run.deployment_id)
        if book and book.edition[0] == run.deployment_version and time.monotonic() - book.looked < LOOK_AGAIN_SECONDS:
            return book.flow
        deployment = await client.read_deployment(run.deployment_id)
        edition = (
            run.deployment_version,
            deployment.version_id,
            deployment.entrypoint,
            deployment.path,
            deployment.storage_document_id,
            str(deployment.pull_steps),
        )
        if book is None or book.edition != edition:
            in_place = not deployment.pull_steps and not deployment.storage_document_id
            directory = Path(deployment.path or ".") if in_place else None
            with self._loading, _working_directory(directory):
                flow = await load_flow_from_flow_run(run, ignore_storage=in_place, use_placeholder_flow=False)
            book = _Book(flow, edition, 0)
        book.looked = time.monotonic()
        self._books[run.deployment_id] = book
        return book.flow


@contextlib.contextmanager
def _working_directory(directory: Path | None) -> Iterator[None]:
    """The code's own directory while it is loaded, or a fresh one that storage can be pulled into."""
    before = Path.cwd()
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="postroom-flows-"))
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)

"""The book, opened: all its tables on one set of clients."""

from __future__ import annotations

import functools
import os
import socket
import uuid
from typing import Any

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.ledger.clock import Clock
from postroom.ledger.desk import Desk
from postroom.ledger.events import EventLog
from postroom.ledger.instructions import Instructions
from postroom.ledger.leases import Leases
from postroom.ledger.rounds import Rounds
from postroom.ledger.threads import Threads
from postroom.settings import Settings, settings


def new_holder() -> str:
    """A name for one execution of a body: never used twice, and an operator can see where it ran."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


class Book:
    """Leases, instructions, threads, deliveries and events of one post room."""

    def __init__(self, s: Settings, *, clock: Clock | None = None, dynamodb: Any = None) -> None:
        self.settings, self.clock, self.names = s, clock or Clock(), Names(s.prefix)
        self.dynamodb = dynamodb or client("dynamodb")
        self.events = EventLog(
            self.dynamodb,
            self.names.events,
            tenant=s.tenant,
            clock=self.clock,
            ttl_days=s.events_ttl_days,
            bus=client("events"),
            bus_name=self.names.bus,
            s3=client("s3"),
            overflow_bucket=self.names.tasks_bucket,
        )
        self.leases = Leases(
            self.dynamodb,
            self.names.leases,
            self.events,
            clock=self.clock,
            promise=s.promise_seconds,
            max_attempts=s.max_attempts,
        )
        self.instructions = Instructions(self.dynamodb, self.names.instructions, self.names.leases, clock=self.clock)
        self.desk = Desk(
            self.dynamodb,
            self.names.leases,
            clock=self.clock,
            max_in_row=s.preempt_max_in_row,
            max_wait_seconds=s.preempt_max_wait_seconds,
            ask_window_seconds=s.ask_window_seconds,
        )
        self.deliveries = Rounds(self.dynamodb, self.names.deliveries, clock=self.clock)
        self.threads = Threads(self.dynamodb, self.names.threads, self.names.interruptions, clock=self.clock)


@functools.lru_cache(maxsize=4)
def _open(s: Settings) -> Book:
    return Book(s)


def open_book() -> Book:
    """The book of this process's settings."""
    return _open(settings())

"""The book against a model: random interleavings, crashes and skewed clocks."""

import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from postroom.errors import LeaseLost, Unavailable
from postroom.ledger import Book, Busy, Ended, Exhausted, Granted, Lease, State
from postroom.ledger.book import new_holder
from postroom.ledger.clock import Clock
from postroom.ledger.leases import Leases

PROMISE = 30.0
SURVIVED_SKEW_MS = 7_400  # each way: two clocks differ by less than half a promise


@dataclass
class World:
    seconds: float = 1_000_000.0


@dataclass
class SkewedClock(Clock):
    world: World
    skew_ms: int = 0

    def now_ms(self) -> int:
        return int(self.world.seconds * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self.world.seconds


@dataclass
class Actor:
    leases: Leases
    lease: Lease | None = None
    old: list[Lease] = field(default_factory=list)


def machine(book: Book, skew_ms: int = SURVIVED_SKEW_MS) -> type[RuleBasedStateMachine]:
    class ManyHolders(RuleBasedStateMachine):
        @initialize(skews=st.lists(st.integers(-skew_ms, skew_ms), min_size=3, max_size=3))
        def open_the_book(self, skews: list[int]) -> None:
            self.world = World()
            self.key = f"task:{uuid.uuid4().hex}"
            self.actors = [
                Actor(
                    Leases(
                        book.dynamodb,
                        book.names.leases,
                        book.events,
                        clock=SkewedClock(self.world, skew),
                        promise=PROMISE,
                        max_attempts=3,
                    )
                )
                for skew in skews
            ]
            self.highest_fence = 0
            self.counted = 0
            self.ended: State | None = None

        def live(self) -> list[Actor]:
            return [a for a in self.actors if a.lease and self.world.seconds < a.lease.stop_at]

        who = st.integers(0, 2)

        @rule(who=who, again=st.booleans())
        def start(self, who: int, again: bool) -> None:
            actor = self.actors[who]
            answer = actor.leases.start(self.key, "task", new_holder(), again=again and self.ended is State.FAILED)
            if isinstance(answer, Granted):
                assert self.ended is None or (self.ended is State.FAILED and again)
                assert answer.lease.fence > self.highest_fence, "a fence never goes back"
                if actor.lease:
                    actor.old.append(actor.lease)
                self.highest_fence, actor.lease, self.ended = answer.lease.fence, answer.lease, None
                self.counted += 1
            elif isinstance(answer, Ended):
                assert answer.row.state is self.ended
            elif isinstance(answer, Exhausted):
                assert not self.live()
            else:
                assert isinstance(answer, Busy)

        @rule(who=who)
        def beat(self, who: int) -> None:
            actor = self.actors[who]
            if actor.lease is None:
                return
            try:
                actor.lease = actor.leases.beat(actor.lease)
                assert actor.lease.fence == self.highest_fence
                assert self.ended is None
            except LeaseLost:
                actor.lease = None

        @rule(who=who, how=st.sampled_from(["done", "failed", "retry", "back"]))
        def let_go(self, who: int, how: str) -> None:
            actor = self.actors[who]
            if actor.lease is None:
                return
            lease, actor.lease = actor.lease, None
            try:
                if how == "back":
                    actor.leases.hand_back(lease)
                    self.counted -= 1
                elif how == "retry":
                    if actor.leases.fail(lease, Unavailable("again"), delay_ms=0).terminal:
                        self.ended = State.FAILED
                else:
                    actor.leases.finish(lease, State(how))
                    self.ended = State(how)
            except LeaseLost:
                assert lease.fence < self.highest_fence or self.ended is not None
                return
            assert lease.fence == self.highest_fence, "an overtaken holder changed the row"

        @precondition(lambda self: any(a.old for a in self.actors))
        @rule(who=who)
        def an_old_lease_changes_nothing(self, who: int) -> None:
            for lease in self.actors[who].old:
                if lease.fence < self.highest_fence:
                    with pytest.raises(LeaseLost):
                        self.actors[who].leases.finish(lease, State.DONE)

        @precondition(lambda self: bool(self.live()))
        @rule(who=who)
        def another_tries_just_before_the_holder_stops_itself(self, who: int) -> None:
            [holder] = self.live()
            assert holder.lease
            self.world.seconds = holder.lease.stop_at - 0.01
            if self.actors[who] is not holder:
                self.start(who, False)

        @rule(who=who)
        def crash(self, who: int) -> None:
            self.actors[who].lease = None

        @rule(seconds=st.sampled_from([0.5, 5, 10, 29, 31, 46, 60]))
        def time_passes(self, seconds: float) -> None:
            self.world.seconds += seconds

        @invariant()
        def never_two_live_holders(self) -> None:
            assert len(self.live()) <= 1

        @invariant()
        def the_row_agrees_with_the_model(self) -> None:
            row = self.actors[0].leases.find(self.key)
            if row is None:
                assert self.counted == 0
                return
            assert row.fence == self.highest_fence
            assert row.attempts == self.counted
            assert row.terminal == (self.ended is not None)

    return ManyHolders


QUICK = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def test_never_two_holders_and_no_state_is_lost_within_the_stated_skew(book: Book) -> None:
    run_state_machine_as_test(machine(book), settings=QUICK)


def test_more_skew_than_stated_is_not_survived_so_the_model_can_see(book: Book) -> None:
    world, key = World(), f"task:{uuid.uuid4().hex}"

    def leases(skew_ms: int) -> Leases:
        clock = SkewedClock(world, skew_ms)
        return Leases(book.dynamodb, book.names.leases, book.events, clock=clock, promise=PROMISE, max_attempts=3)

    first = leases(-20_000).start(key, "task", new_holder())
    world.seconds += 26
    second = leases(0).start(key, "task", new_holder())
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert world.seconds < first.lease.stop_at, "both believe to hold it"

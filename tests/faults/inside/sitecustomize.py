"""On the path of a post room's processes under test: lets the fault tests weaken or bend them from inside.

Files in `faults/` of the data directory say what; they are looked at every time, so it can change while all runs.

    without-{project}   fence    an edit of that site goes on when its time is over
                        absorb   an edit takes on only the newest of what was said
    without             held     a message is deleted when it is received, not when its work has ended
                        (or one of the above, for all sites)
    elsewhere-{project} attempts of an edit do not see each other's files, as on two machines
    (a task's own input.die: begun | agent | answered | kept | done: its process kills itself there, once)
    skew                milliseconds: the wall clock of every process is wrong by up to that, each by its own
"""

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import signal
import sys
from pathlib import Path

FAULTS = Path(os.environ.get("POSTROOM_DATA", "/nonexistent"), "faults")


def told(name):
    try:
        return (FAULTS / name).read_text()
    except OSError:
        return ""


def without(guard, real, instead, project_of):
    """`real`, unless the guard is taken away just now."""

    @functools.wraps(real)
    def bent(*args, **kwargs):
        away = guard in (told("without"), told(f"without-{project_of(*args)}"))
        return (instead if away else real)(*args, **kwargs)

    return bent


def edited(holding, *_):
    """The project of an edit's lease."""
    return f"{holding.lease.key}:".split(":")[1]


def holding(module):
    async def no_beat(self, event=None):
        return None

    cls = module.Holding
    cls.check = without("fence", cls.check, lambda self: None, edited)
    cls.beat = without("fence", cls.beat, no_beat, edited)


def desk(module):
    still = without("fence", module.Desk._still, lambda *_: None, lambda row, *_: row.project)
    module.Desk._still = staticmethod(still)


def successor(module):
    """What the beat and the checks would refuse, the look for a newer edit must not stop either."""
    blind = lambda *_: contextlib.nullcontext()  # noqa: E731
    module.giving_way = without("fence", module.giving_way, blind, lambda book, project, generation: project)


def instructions(module):
    cls = next(each for each in vars(module).values() if hasattr(each, "unfinished"))
    real = cls.unfinished
    newest = lambda self, project: real(self, project)[-1:]  # noqa: E731
    cls.unfinished = without("absorb", real, newest, lambda self, project: project)


def workplace(module):
    real = module.Workplace.clear

    def clear(self):
        if not told(f"elsewhere-{self.places.project}"):
            real(self)

    module.Workplace.clear = clear


def die(told, request_id, moment):
    if told.get("input", {}).get("die") != moment:
        return
    try:
        os.close(os.open(FAULTS / f"{request_id}-{moment}.died", os.O_CREAT | os.O_EXCL))
    except OSError:
        return  # once is enough
    os.kill(os.getpid(), signal.SIGKILL)


def agent_task(module):
    errand, run_tries = module.Errand, module.run_tries
    carry_out, keep, after = errand.carry_out, errand.keep, module.job_news.after_task

    async def dying_carry_out(self, holding):
        die(self.told, self.request_id, "begun")

        async def dying_tries(job, **more):
            return await run_tries(job, on_progress=lambda _: die(self.told, self.request_id, "agent"), **more)

        module.run_tries = dying_tries
        return await carry_out(self, holding)

    async def dying_keep(self, *given):
        die(self.told, self.request_id, "answered")
        kept = await keep(self, *given)
        die(self.told, self.request_id, "kept")
        return kept

    async def dying_after(book, task, key):
        die(task, key.removeprefix("task:"), "done")
        await after(book, task, key)

    errand.carry_out, errand.keep, module.job_news.after_task = dying_carry_out, dying_keep, dying_after


def intake(module):
    real = module.Intake.take_in

    async def careless(self, held):
        await self._sqs.delete_message(QueueUrl=held.message.url, ReceiptHandle=held.message.receipt)
        return await real(self, held)

    module.Intake.take_in = without("held", real, careless, lambda *_: "")


def clock(module):
    real = module.Clock.now_ms
    mine = lambda: (os.getpid() * 7919 % 2001 - 1000) / 1000  # of the skew, from -1 to 1  # noqa: E731
    module.Clock.now_ms = lambda self: real(self) + int(mine() * int(told("skew") or 0))


BENT = {
    "postroom.ledger.holding": holding,
    "postroom.ledger.desk": desk,
    "postroom.ledger.instructions": instructions,
    "postroom.ledger.clock": clock,
    "flows.agent_task": agent_task,
    "flows.successor": successor,
    "flows.workplace": workplace,
    "workers.intake": intake,
}


class Bending(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in BENT:
            return None
        bend = BENT.pop(name)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            bend(module)

        spec.loader.exec_module = exec_module
        return spec


if "POSTROOM_DATA" in os.environ:
    sys.meta_path.insert(0, Bending())

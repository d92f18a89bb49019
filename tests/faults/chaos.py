"""`python -m tests.faults.chaos --minutes 10`: mails flow, faults rain, and in the end an account is drawn.

Seeded: the same seed orders the same faults. Ends with 1 if anything was lost, doubled or left behind.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults.mischief import FAULTS, order_weather
from tests.faults.world import Account, World, under_fire

SITES = ("lawn", "pond", "shed")
EVERY_SECONDS = 8.0  # between two faults
MAIL_SECONDS = 4.0  # between two mails, on average


class Storm:
    """Mails and faults for a while. `hits` says what was done, and how often it hit something."""

    def __init__(self, world: World, seed: int, names: Sequence[str] = tuple(FAULTS)) -> None:
        self.world, self.chance, self.names = world, random.Random(seed), list(names)
        self.hits: Counter[str] = Counter()
        self.told: list[tuple[float, str, str]] = []

    def rage(self, seconds: float, *, every: float = EVERY_SECONDS, say: bool = False) -> None:
        """Go on for so long, and at least until every fault has had its turn."""
        over, sender = threading.Event(), threading.Thread(target=lambda: self._post(over))
        began, bag = time.monotonic(), list[str]()
        first = True
        sender.start()
        try:
            while time.monotonic() - began < seconds or bag or first:
                first = False
                if not bag:
                    bag = self.chance.sample(self.names, len(self.names))
                time.sleep(self.chance.uniform(0.5, 1.5) * every)
                self._strike(bag.pop(), time.monotonic() - began, say)
        finally:
            over.set()
            sender.join()

    def _strike(self, name: str, at: float, say: bool) -> None:
        told = FAULTS[name](self.world, self.chance)
        self.hits[name] += told is not None
        self.told.append((at, name, told or "nothing to hit"))
        if say:
            print(f"{at:6.0f} s  {name:32} {told or 'nothing to hit'}", flush=True)

    def _post(self, over: threading.Event) -> None:
        chance = random.Random(self.chance.random())
        while not over.is_set():
            self.world.post(chance.choice(SITES))
            over.wait(chance.expovariate(1 / MAIL_SECONDS))


def calm(world: World) -> None:
    """The end of all orders; what is under way may finish."""
    order_weather(world, kind="clear")
    for left in list(world.faults.iterdir()):
        if left.suffix != ".done":
            left.unlink()


def weathered(world: World, storm: Storm, seconds: float, every: float, say: bool = False) -> Account:
    """The account after a storm."""
    world.add_sites(SITES)
    for site in SITES:
        world.post(site)
    storm.rage(seconds, every=every, say=say)
    calm(world)
    began = time.monotonic()
    try:
        world.wait(240)
    except AssertionError as late:
        print(late, file=sys.stderr)
    if say:
        print(f"all ended {time.monotonic() - began:.0f} s after the last fault", flush=True)
    return world.account()


def main() -> int:
    given = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=__doc__)
    given.add_argument("--minutes", type=float, default=10)
    given.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    given.add_argument("--every", type=float, default=EVERY_SECONDS, help="seconds between two faults, on average")
    given.add_argument("--without", choices=("fence", "absorb", "held"), help="take a guard away: losses are expected")
    told = given.parse_args()
    print(f"seed {told.seed}; the post room starts…", flush=True)
    with under_fire() as world:
        world.order("without", told.without)
        storm = Storm(world, told.seed)
        account = weathered(world, storm, told.minutes * 60, told.every, say=True)
        print(f"\n{'fault':34}hit\n" + "\n".join(f"{name:34}{storm.hits[name]}" for name in storm.names))
        print(f"\n{sum(storm.hits.values())} faults, {len(world.mails)} mails: {account}")
        for name, found in account.faults.items():
            print(f"  {name}: {found}")
        if account.faults:
            logs = shutil.copytree(world.room.data / "logs", Path(tempfile.mkdtemp(prefix="chaos-")) / "logs")
            print(f"the logs are in {logs}")
    return 1 if account.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""A sample of `make chaos`; and the proof that it would see a loss: with one guard taken away it does."""

import os
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil
import pytest

from tests.faults import chaos
from tests.faults.mischief import FAULTS, order_weather
from tests.faults.world import Account, World
from tests.fixtures.room import until

SEED = int(os.environ.get("POSTROOM_TEST_SEED", "7"))


@pytest.mark.timeout(1800)
def test_in_a_storm_nothing_is_lost_and_nothing_done_twice(world: World) -> None:
    storm = chaos.Storm(world, SEED)
    account = chaos.weathered(world, storm, 40, every=2.2)
    assert not account.faults, storm.told
    assert sum(storm.hits.values()) >= len(FAULTS) * 0.7, storm.told


@dataclass
class Scene:
    """A moment in which one guard is all that stands between a mail and its loss."""

    world: World
    site: str

    def asleep(self) -> int:
        """The process that stopped itself at the ordered step."""
        done = self.world.faults / f"{self.site}.done"
        until(done.exists, 120, "the edit to fall asleep")
        return int(done.read_text())

    def fence(self) -> None:
        """An edit falls asleep before its deploy; others carry it out, and a newer mail; then it wakes up."""
        self.world.order(f"elsewhere-{self.site}", "yes")
        self.world.order(self.site, "stop merged")
        self.world.post(self.site)
        sleeper = self.asleep()
        try:
            self.world.wait(150)
            self.world.post(self.site)
            self.world.wait(150)
        finally:
            os.kill(sleeper, signal.SIGCONT)
        until(lambda: not psutil.pid_exists(sleeper), 90, "the sleeper to end")

    def absorb(self) -> None:
        """While an edit is past its commit point three mails come and wait together for the next one."""
        self.world.order(self.site, "stop commit point passed")
        self.world.post(self.site)
        sleeper = self.asleep()
        later = [self.world.post(self.site) for _ in range(3)]
        until(lambda: self.world.aws.seq(self.site) == 4, 90, "all of them to be in the book")
        os.kill(sleeper, signal.SIGCONT)
        until(lambda: "done" in map(self.world.status, later), 150, "the next edit to be done")
        until(lambda: self.world.aws.row(f"site:{self.site}")["phase"]["S"] == "idle", 60, "the site to be at rest")

    def held(self) -> None:
        """Messages are received, the book does not answer, the sensor dies."""
        order_weather(self.world, kind="refusing", seconds=60, service="dynamodb")
        for _ in range(5):
            self.world.post(self.site)
        sensor = self.world.room.pids()["sensor"]
        until(lambda: not waiting(self.world), 30, "the sensor to have received them all")
        os.kill(sensor, signal.SIGKILL)
        order_weather(self.world, kind="clear")
        until(lambda: self.world.room.pids().get("sensor") not in (None, sensor), 60, "the sensor to be back")
        until(lambda: in_the_queue(self.world) == 0, 90, "the queue to be empty")


def waiting(world: World) -> int:
    return _queued(world, "ApproximateNumberOfMessages")


def in_the_queue(world: World) -> int:
    return _queued(world, "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")


def _queued(world: World, *names: str) -> int:
    url = world.aws.sqs.get_queue_url(QueueName="postroom-mail")["QueueUrl"]
    found = world.aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))["Attributes"]
    return sum(int(found[name]) for name in names)


def played(world: World, guard: str, *, without: bool) -> Account:
    """The account after a scene, on a site of its own."""
    scene = Scene(World(world.room), world.add_site(f"{guard}-{'off' if without else 'on'}-{uuid.uuid4().hex[:4]}"))
    if without:
        world.order("without" if guard == "held" else f"without-{scene.site}", guard)
    getattr(scene, guard)()
    if not without:
        scene.world.wait(150)
    return scene.world.account(patience=0 if without else 60)


@pytest.mark.timeout(1800)
def test_without_a_guard_the_account_tells_of_losses_and_with_it_of_none(world: World) -> None:
    with ThreadPoolExecutor(4) as pool:  # their guards are taken away per site: they do not hear of each other
        scenes = [(guard, without) for guard in ("fence", "absorb") for without in (True, False)]
        accounts = {each: pool.submit(played, world, each[0], without=each[1]) for each in scenes}
    found = {each: account.result() for each, account in accounts.items()}
    found["held", False] = played(world, "held", without=False)
    found["held", True] = played(world, "held", without=True)
    for (guard, without), account in found.items():
        if without:
            assert account.lost or account.unfinished, (guard, str(account))
        else:
            assert not account.faults, (guard, account.faults)

"""kill -9 at every step of the mail's flows: each mail ends done, its page is there once, one answer at most.

The steps are read from the code, so a new one is tested by itself. Each has a site of its own; all at once.
"""

import pytest

from tests.faults.steps import steps
from tests.faults.world import World


def site_of(step: str) -> str:
    return "s-" + step.replace(" ", "-")


def test_the_steps_are_found() -> None:
    assert len(steps()) == len(set(steps()))
    assert {"recognised", "entered into the book", "gathered", "commit point passed", "merged", "deployed"} <= set(
        steps()
    )


@pytest.mark.timeout(1800)
def test_a_process_killed_at_any_step_loses_nothing_and_does_nothing_twice(world: World) -> None:
    world.add_sites(map(site_of, steps()))
    for step in steps():
        world.order(site_of(step), step)
    for step in steps():
        world.post(site_of(step))
    world.wait(420)
    assert {world.status(mail) for mail in world.mails} == {"done"}
    died = {file.stem for file in world.faults.glob("*.done")}
    assert died == set(map(site_of, steps())), "a process died at every step"
    account = world.account()
    assert not account.faults

"""`postroom deploy` against a real Prefect server."""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate, WorkPoolUpdate
from prefect.events import emit_event
from prefect.events.schemas.automations import AutomationCore
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY
from prefect.states import Completed, Failed, Running, Scheduled
from pydantic import SecretStr

from blocks.slack import Slack
from deployments import automations, block_documents, declared, work_pools
from deployments.deploy import deploy
from flows.once import RESCHEDULED
from postroom.aws.resource import Step
from postroom.errors import Misconfigured
from postroom.ledger import Event as book_event
from postroom.settings import load, settings
from tests.patience import PATIENCE
from workers.beats import beating_in_time
from workers.prefect_events import tell_prefect

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def client(prefect_server: str) -> AsyncIterator[PrefectClient]:
    async with get_client() as client:
        yield client
        for automation in await client.read_automations():  # or they would watch the runs of other tests
            await client.delete_automation(automation.id)


def changed(steps: list[Step]) -> list[str]:
    return [f"{step.action} {step.kind} {step.name}" for step in steps if step.action != "unchanged"]


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.2)


async def test_a_second_deploy_changes_nothing_and_a_dry_run_tells_the_same(client: PrefectClient) -> None:
    first = await deploy()
    again = await deploy()
    planned = await deploy(dry_run=True)
    assert {step.kind for step in first} == {"work pool", "limit", "block type", "automation", "deployment"}
    assert changed(again) == changed(planned) == []
    assert [step.name for step in again] == [step.name for step in first]


async def test_a_dry_run_writes_nothing(client: PrefectClient) -> None:
    await deploy()
    await client.delete_global_concurrency_limit_by_name("agent-tasks")
    for automation in await client.read_automations():
        await client.delete_automation(automation.id)
    wanted = ["create limit agent-tasks", "create automation Silent runs are crashed"]
    assert changed(await deploy(dry_run=True)) == wanted
    assert changed(await deploy(dry_run=True)) == wanted
    assert changed(await deploy()) == wanted
    assert changed(await deploy()) == []


async def test_what_was_changed_by_hand_is_mended_and_named(client: PrefectClient) -> None:
    await deploy()
    found = await client.read_deployment_by_name("health-check/health-check")
    await client.update_deployment(found.id, _update(tags=["other"]))
    steps = await deploy()
    assert changed(steps) == ["update deployment health-check"]
    assert [step.differences for step in steps if step.action == "update"] == [("tags",)]
    mended = await client.read_deployment_by_name("health-check/health-check")
    assert mended.id == found.id
    assert mended.tags == ["job:house"]


async def test_how_many_tasks_run_at_once_is_the_operators_word_and_a_limit_that_is_off_is_switched_on(
    client: PrefectClient,
) -> None:
    await deploy()
    try:
        await client.update_global_concurrency_limit("agent-tasks", GlobalConcurrencyLimitUpdate(limit=5))
        assert changed(await deploy()) == []
        await client.update_global_concurrency_limit("agent-tasks", GlobalConcurrencyLimitUpdate(active=False))
        assert changed(await deploy()) == ["update limit agent-tasks"]
        found = await client.read_global_concurrency_limit_by_name("agent-tasks")
        assert (found.limit, found.active) == (5, True)
    finally:
        await client.delete_global_concurrency_limit_by_name("agent-tasks")


async def test_what_an_operator_has_filled_in_stays(client: PrefectClient) -> None:
    await deploy()
    pool = await client.read_work_pool("heavy")
    edited = json.loads(json.dumps(pool.base_job_template))
    edited["variables"]["properties"]["working_dir"]["default"] = "/srv/work"
    await client.update_work_pool("heavy", WorkPoolUpdate(base_job_template=edited))
    try:
        assert changed(await deploy()) == []
        assert (await client.read_work_pool("heavy")).base_job_template == edited
    finally:
        await client.update_work_pool("heavy", WorkPoolUpdate(base_job_template=pool.base_job_template))


async def test_a_pool_of_another_type_is_not_silently_used(
    client: PrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy()
    monkeypatch.setenv("POSTROOM_HEAVY_POOL", "ecs")
    settings.cache_clear()
    try:
        with pytest.raises(Misconfigured, match="'heavy' in Prefect is of type 'process', but 'ecs' is wanted"):
            await deploy()
    finally:
        monkeypatch.undo()
        settings.cache_clear()


def test_pool_templates_are_those_of_the_installed_prefect() -> None:
    for name, template in work_pools.derive().items():
        assert work_pools.read(name) == template, f"{name}.json is stale: python -m deployments.work_pools"


def test_every_kind_of_heavy_pool_has_a_template() -> None:
    for kind in work_pools.HEAVY:
        made = work_pools.pools(load(heavy_pool=kind))
        assert made["heavy"][0] == kind
        assert made["heavy"][1]["variables"]["properties"]["env"]["default"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]


def test_every_flow_has_a_deployment_of_its_own_name() -> None:
    entries = {entry["name"]: entry for entry in declared.declared()}
    texts = {file.stem.replace("_", "-"): file.read_text() for file in (ROOT / "flows").glob("*.py")}
    files = {name for name, text in texts.items() if re.search(r"^@(prefect\.)?flow\(", text, re.MULTILINE)}
    assert files == set(entries)
    for name, entry in entries.items():
        assert entry["entrypoint"] == f"flows.{name.replace('-', '_')}.{name.replace('-', '_')}"
        assert any(tag.startswith("job:") for tag in entry["tags"]), f"{name} does not say which job it belongs to"


async def test_a_watch_that_takes_long_is_not_begun_a_second_time(client: PrefectClient) -> None:
    await deploy()
    for name in ("health-check", "dead-letters"):
        found = await client.read_deployment_by_name(f"{name}/{name}")
        assert found.global_concurrency_limit is not None
        assert found.global_concurrency_limit.limit == 1
        assert found.concurrency_options is not None
        assert found.concurrency_options.collision_strategy.value == "CANCEL_NEW"


def test_an_entry_that_is_not_understood_is_named(tmp_path: Path) -> None:
    file = tmp_path / "prefect.yaml"
    file.write_text("deployments: [{name: a, entrypoint: b.c, work_pool: {name: light}, scheduels: []}]")
    with pytest.raises(Misconfigured, match="a says scheduels"):
        declared.declared(file)
    file.write_text("deployments: [{name: a, entrypoint: b.c}]")
    with pytest.raises(Misconfigured, match="work_pool"):
        declared.declared(file)


def test_every_pool_beats_at_least_twice_in_the_silence_that_counts_as_death() -> None:
    beats = []
    for kind in work_pools.HEAVY:
        for pool, (_, template) in work_pools.pools(load(heavy_pool=kind)).items():
            if pool != "light":
                environment = template["variables"]["properties"]["env"]["default"]
                beats.append(int(environment["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]))
    with beating_in_time():  # as each desk of the light worker
        beats.append(PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value())
    assert 2 * max(beats) < automations.SILENCE.total_seconds()


def test_every_state_that_our_code_names_ends_the_wait_for_a_heartbeat() -> None:
    code = "".join(file.read_text() for room in ("flows", "workers") for file in (ROOT / room).rglob("*.py"))
    named = set(re.findall(r"""(?:Completed|Failed|Cancelled|Crashed|Scheduled)\(name="([^"]+)\"""", code))
    assert named >= {"Refused", "Preempted"}
    waited_for = automations.zombies().trigger.expect
    assert {f"prefect.flow-run.{name}" for name in (*named, RESCHEDULED)} <= waited_for


async def test_a_run_that_waits_for_its_next_turn_is_not_crashed(client: PrefectClient) -> None:
    await client.create_automation(automations.zombies(timedelta(seconds=10)))
    waits = await client.create_flow_run(silent, state=Running())
    dies = await client.create_flow_run(silent, state=Running())
    beating_until = time.monotonic() + 3

    async def only_the_dead_is_crashed() -> bool:
        if time.monotonic() < beating_until:
            for run in (waits, dies):
                emit_event("prefect.flow-run.heartbeat", {"prefect.resource.id": f"prefect.flow-run.{run.id}"})
        elif (await client.read_flow_run(waits.id)).state_name == "Running":
            await client.set_flow_run_state(waits.id, Scheduled(name=RESCHEDULED), force=True)
        return (await client.read_flow_run(dies.id)).state_name == "Crashed"

    await until(only_the_dead_is_crashed, 45)
    assert (await client.read_flow_run(waits.id)).state_name == RESCHEDULED


@flow(name="silent")
def silent() -> None:
    """Never called: its runs are moved by hand."""


async def test_a_run_whose_heart_stops_is_crashed(client: PrefectClient) -> None:
    shorter: AutomationCore = automations.zombies(timedelta(seconds=10))
    await client.create_automation(shorter)
    run = await client.create_flow_run(silent, state=Running())

    async def is_crashed() -> bool:
        # The server may need a moment to know the automation: beats go on until one was heard.
        if time.monotonic() < beating_until:
            emit_event("prefect.flow-run.heartbeat", {"prefect.resource.id": f"prefect.flow-run.{run.id}"})
        state = (await client.read_flow_run(run.id)).state
        return state is not None and state.is_crashed()

    beating_until = time.monotonic() + 3
    await until(is_crashed, 45)
    state = (await client.read_flow_run(run.id)).state
    assert state is not None
    assert "heartbeat has stopped" in (state.message or "")


@pytest.fixture
def slack_far_end() -> Iterator[tuple[str, list[tuple[dict[str, str], dict[str, Any]]]]]:
    heard: list[tuple[dict[str, str], dict[str, Any]]] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            heard.append(({key.lower(): value for key, value in self.headers.items()}, json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"ok": true}')

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ear)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_slack_is_told_of_what_failed_for_good_and_of_failing_watchers_but_not_of_every_attempt(
    client: PrefectClient, slack_far_end: tuple[str, list[tuple[dict[str, str], dict[str, Any]]]]
) -> None:
    url, heard = slack_far_end
    token = "xoxb-" + "0" * 12
    try:
        await Slack(channel="#post-room", token=token, api=url).asave(block_documents.ALERTS, overwrite=True)
        assert "create automation Failures are told to Slack" in changed(await deploy())
        assert changed(await deploy()) == []

        async def fails(*tags: str) -> None:
            run = await client.create_flow_run(silent, state=Running(), tags=tags)
            await client.set_flow_run_state(run.id, Failed(message="secret words of a stranger"), force=True)

        async def is_told() -> bool:
            await fails("job:task")  # an attempt, perhaps to be followed by another
            await fails("job:house")
            for what, whom in (("Task Processing Failed", "TASK#t-1"), ("Job Failure Detected", "JOB#j-1")):
                stamp = {"at_ms": int(time.time() * 1000), "event_id": str(uuid4())}
                tell_prefect(book_event(what, whom, "task", {"failed": "words of a stranger"}, **stamp))
            await asyncio.sleep(0.5)
            return len({told["text"].partition(" http")[0] for _, told in heard}) == 2

        await until(is_told, 30)
        for headers, told in heard:
            assert headers["authorization"] == f"Bearer {token}"
            assert told["channel"] == "#post-room"
            assert "stranger" not in json.dumps(told)
        runs = {
            told["text"].rpartition("/")[2]
            for _, told in heard
            if told["text"].startswith("A run of silent is Failed: http")
        }
        assert runs
        for run_id in runs:
            assert (await client.read_flow_run(UUID(run_id))).tags == ["job:house"]
        rest = {told["text"] for _, told in heard if not told["text"].startswith("A run of silent")}
        assert rest == {"postroom.job.failure-detected: postroom.job.j-1"}
    finally:
        for name, kind in ((block_documents.ALERTS, "postroom-slack"), (block_documents.WEBHOOK, "webhook")):
            document = await client.read_block_document_by_name(name, kind)
            await client.delete_block_document(document.id)


@flow(name="health-check")
def looks_after_the_house() -> None:
    """Never called."""


async def test_slack_is_told_once_when_no_health_check_ends_any_more(
    client: PrefectClient, slack_far_end: tuple[str, list[tuple[dict[str, str], dict[str, Any]]]]
) -> None:
    url, heard = slack_far_end
    hook = await Webhook(url=SecretStr(url)).asave(f"ear-{uuid4().hex[:8]}")
    await client.create_automation(automations.unwatched(hook, "#post-room", timedelta(seconds=10)))

    async def ends(what: Any) -> None:
        run = await client.create_flow_run(what, state=Running())
        await client.set_flow_run_state(run.id, Completed(name="Needs attention"), force=True)

    checks_until, silent_since = time.monotonic() + 12, 0.0

    async def is_told() -> bool:
        nonlocal silent_since
        await ends(silent)  # any other flow is no health check
        if time.monotonic() < checks_until:
            await ends(looks_after_the_house)
            silent_since = time.monotonic()
            assert not heard
        return bool(heard)

    await until(is_told, 60)
    assert time.monotonic() - silent_since > 9
    assert [told["text"] for _, told in heard] == [automations.NOT_WATCHED]


def _update(**fields: Any) -> Any:
    from prefect.client.schemas.actions import DeploymentUpdate

    return DeploymentUpdate(**fields)

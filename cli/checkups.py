"""What `postroom doctor` looks at. A new checkup is one function and one line in the table below."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator

from cli import checkups_changes, whereabouts
from cli.findings import Finding
from deployments.setup import missing
from postroom.errors import PostroomError, classify, sanitise
from postroom.settings import load, settings
from workers.premises import Premises, addresses, ports_of


def configuration() -> Iterator[Finding]:
    """Every setting has a value that is allowed."""
    try:
        load()
    except PostroomError as error:
        yield Finding("settings", False, str(error), "Correct the variables named; docs/settings.md lists them all.")
        return
    told = sorted(name for name in os.environ if name.startswith("POSTROOM_"))
    known = {f"POSTROOM_{name.upper()}" for name in type(settings()).model_fields}
    stray = [name for name in told if name.removesuffix("_FILE") not in known and name not in OURS]
    yield Finding("settings", True, f"{len(known)} settings, {len(set(told) & known)} of them set")
    for name in stray:
        yield Finding("settings", False, f"{name} is not a setting", "A slip of the pen? docs/settings.md lists them.")


OURS = {"POSTROOM_WARM", "POSTROOM_CORRELATION", "POSTROOM_HOUSE", "POSTROOM_END_WITH_PARENT"}


def programs() -> Iterator[Finding]:
    """What must be installed is."""
    for need in missing():
        yield Finding(need.program, False, f"not installed: {need.without}", f"apt-get install {need.package}")
    if shutil.which("bwrap"):
        tried = subprocess.run(
            ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], capture_output=True, text=True, timeout=20
        )
        said = "namespaces work" if tried.returncode == 0 else tried.stderr.strip()[:200]
        weak = settings().sandbox == "weak"
        mend = "" if weak else "Allow user namespaces on this host, or choose POSTROOM_SANDBOX=weak knowingly."
        yield Finding("sandbox", tried.returncode == 0 or weak, said, mend)


def local_house() -> Iterator[Finding]:
    """The parts of a local post room are all ready, if one runs here."""
    premises = Premises(whereabouts.data_directory())
    if not premises.is_running():
        return
    state = premises.state()
    for part in state.get("processes", []):
        well = part["state"] == "ready"
        yield Finding(part["name"], well, f"{part['state']}, restarted {part['restarts']} times",
                      "" if well else f"Its log: {premises.log(part['name'])}")  # fmt: skip
    url = addresses(ports_of(state))["sensor"]
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own address
            yield Finding("sensor", True, f"holds {json.load(answer)['held']} messages")
    except (OSError, ValueError, KeyError) as error:
        yield Finding("sensor", False, f"{url}: {error}", f"Its log: {premises.log('sensor')}")


def aws() -> Iterator[Finding]:
    """AWS answers, and everything of ours is there."""
    from postroom.aws import provision
    from postroom.aws.clients import client

    who = client("sts", retries=False, read_timeout=5).get_caller_identity()
    where = os.environ.get("AWS_ENDPOINT_URL", "amazonaws.com")
    yield Finding("aws", True, f"account {who['Account']} at {where}")
    steps = [step for step in provision.plan() if step.action != "unchanged"]
    yield _differences("aws resources", [f"{step.kind} {step.name}" for step in steps], "postroom provision")


def prefect() -> Iterator[Finding]:
    """Prefect answers, looks as this checkout says, and someone works for each pool."""
    whereabouts.require_prefect()
    from deployments.deploy import deploy

    steps = [step for step in asyncio.run(deploy(dry_run=True)) if step.action != "unchanged"]
    yield Finding("prefect", True, f"answers at {os.environ.get('PREFECT_API_URL', 'the address of the profile')}")
    yield _differences("prefect objects", [f"{step.kind} {step.name}" for step in steps], "postroom deploy")
    for pool, status in asyncio.run(_pools()).items():
        well = status in ("READY", "PAUSED") or settings().heavy_pool == "ecs:push"
        yield Finding(f"pool {pool}", well, status.lower().replace("_", " "),
                      "" if well else f"Start a worker: {WORKERS[pool]}")  # fmt: skip


WORKERS = {"light": "python -m workers.light", "heavy": "prefect worker start --pool heavy"}


async def _pools() -> dict[str, str]:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    found = {}
    async with get_client() as client:
        for pool in WORKERS:
            try:
                status = (await client.read_work_pool(pool)).status
                found[pool] = status.value if status else "NOT_READY"
            except ObjectNotFound:
                found[pool] = "MISSING"
    return found


def agent() -> Iterator[Finding]:
    """The agent has what it needs."""
    if settings().agent == "literal":
        yield Finding("agent", True, "literal: mail is put onto the site as written, no key is needed")
    elif settings().agent_token is None:
        yield Finding("agent", False, "claude, without a key", "Set POSTROOM_AGENT_TOKEN or POSTROOM_AGENT_TOKEN_FILE.")
    else:
        yield Finding("agent", True, f"claude, {settings().agent_model}; the key is set (and was not tried)")


def slack() -> Iterator[Finding]:
    """Slack accepts the token, if there is one."""
    token, channel = settings().slack_token, settings().slack_channel
    if token is None and channel is None:
        yield Finding("slack", True, "not set up: failures are shown in Prefect only")
        return
    if token is None or channel is None:
        yield Finding("slack", False, "half set up", "Set both POSTROOM_SLACK_TOKEN and POSTROOM_SLACK_CHANNEL.")
        return
    from slack_sdk import WebClient

    WebClient(token=token.get_secret_value(), timeout=10).auth_test()
    yield Finding("slack", True, f"the token is accepted; failures go to {channel}")


CHECKUPS: dict[str, Callable[[], Iterator[Finding]]] = {
    "settings": configuration,
    "programs": programs,
    "local post room": local_house,
    "aws": aws,
    "prefect": prefect,
    "agent": agent,
    "slack": slack,
    "calendar": checkups_changes.calendar,
    "customers": checkups_changes.customers,
    "senders": checkups_changes.senders,
}
MEND = {
    "aws": "Is it up? `postroom up` for a local one; AWS_REGION and credentials for a real one.",
    "prefect": "Is it up? `postroom up` for a local one; PREFECT_API_URL (and PREFECT_API_KEY) for another.",
    "slack": "Check POSTROOM_SLACK_TOKEN, and that Slack can be reached from here.",
    "calendar": "Check POSTROOM_GRAPH_* or the block graph/calendar; the application needs Calendars.ReadWrite.",
    "customers": "Prefect holds the customers and AWS their queues: are both up?",
    "senders": "Prefect holds the customers: is it up?",
}


def examine(leave_out: Collection[str] = ()) -> Iterator[Finding]:
    """All findings; a checkup that breaks off is itself a finding."""
    for name, checkup in CHECKUPS.items():
        if name in leave_out:
            continue
        try:
            yield from checkup()
        except Exception as error:
            known = classify(error)
            said = sanitise(str(known).partition("\n")[0], limit=300)
            yield Finding(name, False, said, MEND.get(name, "Set POSTROOM_DEBUG=1 and run the doctor again."))
        if name == "settings" and not _readable():
            return  # all else needs them


def _readable() -> bool:
    try:
        load()
    except PostroomError:
        return False
    return True


def _differences(check: str, names: list[str], verb: str) -> Finding:
    if not names:
        return Finding(check, True, "all as they should be")
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return Finding(check, False, f"missing or different: {shown}", f"Run `{verb}` (with --dry-run to see all).")

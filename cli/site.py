"""`postroom site`: onboarding and care of sites."""

from __future__ import annotations

import asyncio
import json as documents
import secrets
import time
from typing import Annotated, Any

import typer

from cli import say, whereabouts
from postroom.errors import BadInput, Missing
from postroom.sites.places import Places

app = typer.Typer(no_args_is_help=True)

Project = Annotated[str, typer.Argument(metavar="PROJECT", help="Name of the site.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]


@app.callback()
def site() -> None:
    """Onboard and care for sites."""


@app.command()
def add(
    project: Project,
    user: Annotated[str, typer.Argument(metavar="USER", help="Who speaks: mail goes to PROJECT+USER@….")],
    domain: Annotated[str, typer.Option(help="Domain below which the site is published.")],
    sender: Annotated[list[str], typer.Option(help="Address, or *@domain, that may change the site; repeatable.")],
    repo: Annotated[str | None, typer.Option(help="Git repository (URL, path), or a directory to begin with.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who edits it: claude or literal; else the setting.")] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Create a site: buckets, repository, block. On a site that is there: add the user and the senders."""
    whereabouts.require()
    whereabouts.require_prefect()
    from postroom.sites.onboarding import add_site

    if agent not in (None, "claude", "literal"):
        raise BadInput(f"agent {agent!r} is neither claude nor literal")
    known = asyncio.run(_find(project))
    if known is not None and known.domain != domain:
        raise BadInput(f"{project} is already there, below {known.domain}; a site can't be moved")
    if known is not None and repo is not None and known.repo and repo != known.repo:
        raise BadInput(f"{project} already has a repository, {known.repo}")
    if known is not None:
        repo = repo or known.repo
    done = add_site(project, user, domain, sender, repo, dry_run=dry_run)
    block = {
        "project": project,
        "users": sorted({*(known.users if known else ()), user}),
        "domain": domain,
        "senders": list(dict.fromkeys((*(known.senders if known else ()), *done.senders))),
        "repo": done.remote,
        "agent": agent or (known.agent if known else None),
        "paused": known.paused if known else False,
    }
    if not dry_run:
        asyncio.run(_save(block))
    steps = [step.as_json() for step in done.steps]
    told = {**_told(block), "steps": steps, "dry_run": dry_run}
    if json:
        say.data(told)
        return
    say.table(("", "kind", "name"), ((step["action"], step["kind"], step["name"]) for step in steps))
    say.note(f"Mail to {project}+{user}@… {'would change' if dry_run else 'changes'} {told['edit_url']}")


@app.command("list")
def list_sites(json: Json = False) -> None:
    """All sites."""
    whereabouts.require_prefect()
    found = [_told(one.model_dump()) for one in asyncio.run(_all())]
    if json:
        say.data(found)
    else:
        say.table(
            ("project", "users", "senders", "edit site"),
            ((s["project"], ", ".join(s["users"]), ", ".join(s["senders"]), s["edit_url"]) for s in found),
        )


@app.command()
def show(project: Project, json: Json = False) -> None:
    """One site: who may change it, where it is, what was done last."""
    whereabouts.require_prefect()
    told = {**_told(_required(project).model_dump()), "history": _history(project)}
    say.data(told) if json else say.text(documents.dumps(told, indent=2, ensure_ascii=False))


@app.command()
def publish(project: Project, dry_run: DryRun = False, json: Json = False) -> None:
    """Bring the edit site to production, after what is being worked on now."""
    _ask(project, "publish", dry_run, json)


@app.command()
def undo(project: Project, dry_run: DryRun = False, json: Json = False) -> None:
    """Take back the last edit: git revert, rebuild, deploy to the edit site."""
    _ask(project, "undo", dry_run, json)


def _ask(project: str, kind: str, dry_run: bool, json: bool) -> None:
    """As with a mail that says only "publish" or "undo": into the book, and the site's next edit carries it out."""
    whereabouts.require()
    whereabouts.require_prefect()
    _required(project)
    wish = f"{kind}-{secrets.token_hex(8)}"
    told: dict[str, Any] = {"project": project, "kind": kind, "message_id": wish, "dry_run": dry_run, "edit": None}
    if not dry_run:
        told["edit"] = asyncio.run(_enter(project, kind, wish))
    if json:
        say.data(told)
    else:
        say.note(f"{'Would ask' if dry_run else 'Asked'} for: {kind} {project} ({told['edit'] or wish})")


async def _enter(project: str, kind: str, wish: str) -> str:
    from flows.desk import ask_for_edit
    from postroom.ledger.book import open_book
    from postroom.ledger.instructions import Instruction

    book = open_book()
    instruction = Instruction(
        project=project,
        message_id=wish,
        user="operator",
        thread_id=wish,
        received_at=int(time.time() * 1000),
        sender="",  # nobody to answer: the command line is told at once
        subject=kind,
        text=kind,
        kind=kind,
    )
    await asyncio.to_thread(book.instructions.enter, instruction)
    return (await ask_for_edit(book, instruction)).edit_key


def _told(block: dict[str, Any]) -> dict[str, Any]:
    places = Places(block["project"], block["domain"])
    return {
        **{name: block[name] for name in ("project", "users", "domain", "senders", "repo", "agent", "paused")},
        "edit_url": places.edit_url,
        "production_url": places.production_url,
        "buckets": [places.media_bucket, places.edit_bucket, places.production_bucket],
    }


def _history(project: str) -> list[dict[str, Any]]:
    from postroom.sites.repository import Repository

    try:
        commits = Repository(Places(project, "example.com").repository).history(10)
    except Missing:  # on another machine
        return []
    return [{"commit": c.sha, "subject": c.subject, "instructions": list(c.instructions)} for c in commits]


async def _all() -> list[Any]:
    from blocks.sites import all_sites

    return await all_sites()


async def _find(project: str) -> Any:
    return next((one for one in await _all() if one.project == project), None)


def _required(project: str) -> Any:
    if (found := asyncio.run(_find(project))) is None:
        raise Missing(f"there is no site {project!r}; `postroom site list` shows all, `postroom site add` makes one")
    return found


async def _save(block: dict[str, Any]) -> None:
    from blocks.site import Site

    await Site(**block).asave(block["project"], overwrite=True)

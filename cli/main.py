"""The `postroom` command: one table of verbs, each loaded only when it is called."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli import say, whereabouts
from postroom.errors import PostroomError, classify

# verb → (file that holds it, what it does). A new verb is one file and one line here;
# the file has `app`, a typer.Typer (a group of verbs, or one command).
VERBS = {
    "up": ("cli.up", "Run the whole post room on this machine."),
    "down": ("cli.down", "Stop a post room that runs in the background."),
    "status": ("cli.status", "Say what runs where, and what waits."),
    "mail": ("cli.mail", "Parse, send, follow and replay mail."),
    "media": ("cli.media", "Turn pictures into web media."),
    "site": ("cli.site", "Onboard and care for sites."),
    "task": ("cli.task", "Agent tasks and their definitions."),
    "job": ("cli.job", "DAGs of agent tasks."),
    "change": ("cli.change", "Changes and their notices."),
    "customers": ("cli.customers", "Customer configuration."),
    "deliveries": ("cli.deliveries", "Who was told what."),
    "dead-letters": ("cli.dead_letters", "What could not be done, kept until someone decides."),
    "provision": ("cli.provision", "Create the AWS resources."),
    "deploy": ("cli.deploy", "Create Prefect pools, limits, blocks, automations and deployments."),
    "doctor": ("cli.doctor", "Check configuration and connections; say what to mend."),
}


class Verbs(TyperGroup):
    """Verbs whose files are imported on first use, so that `mail parse` does not pay for Prefect."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [verb for verb, (module, _) in VERBS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS or not importlib.util.find_spec(VERBS[cmd_name][0]):
            return None
        command = typer.main.get_command(importlib.import_module(VERBS[cmd_name][0]).app)
        command.name, command.help = cmd_name, command.help or VERBS[cmd_name][1]
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs"):
            if verbs := self.list_commands(ctx):
                formatter.write_dl([(verb, VERBS[verb][1]) for verb in verbs])


app = typer.Typer(
    cls=Verbs,
    name="postroom",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # it would import every verb to write the help
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        say.text(f"postroom {importlib.metadata.version('postroom')}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    data: Annotated[Path | None, typer.Option(file_okay=False, help="Directory of the local post room.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version and stop.")
    ] = False,
) -> None:
    """Turns what arrives - a mail, a queued task, a change - into finished work."""
    ctx.obj = data
    if ctx.invoked_subcommand != "up":  # it makes its own surroundings
        whereabouts.enter(data)


def data_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--data DIR` moved before the verb: it may stand anywhere."""
    told, others = [], list(arguments)
    for at, word in enumerate(arguments):
        if word == "--":
            break
        if word == "--data" and at + 1 < len(arguments):
            told, others = [word, arguments[at + 1]], [*arguments[:at], *arguments[at + 2 :]]
            break
        if word.startswith("--data="):
            told, others = [word], [*arguments[:at], *arguments[at + 1 :]]
            break
    return [*told, *others]


def run() -> None:
    """Entry point of the command."""
    guarded(lambda: app(data_first(sys.argv[1:]), prog_name="postroom"))


def guarded(work: Callable[[], object]) -> None:
    """Does the work; errors become one clear line on stderr and the exit code of their kind."""
    try:
        work()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except PostroomError as error:
        say.problem(str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        known = classify(error)
        if known.exit_code == 70:
            say.trouble(error)
        else:
            say.problem(str(known))
        sys.exit(known.exit_code)


if __name__ == "__main__":
    run()

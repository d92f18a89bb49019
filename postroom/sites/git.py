"""Calls of git that a stranger's files cannot bend: argument lists, no hooks, no configuration but ours."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from postroom.errors import BadInput, Misconfigured, OurFault, TimedOut, Unavailable
from postroom.settings import settings

_REFNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,120})*")
_URL = re.compile(r"(?:https|ssh)://[^\s-][^\s]*|[A-Za-z0-9._-]+@[A-Za-z0-9][A-Za-z0-9.-]*:[^\s-][^\s]*")
_PASSED_ON = ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "SSL_CERT_FILE", "GIT_SSL_CAINFO", "HTTPS_PROXY", "NO_PROXY")


def ref_name(name: str) -> str:
    """The name, if it can be part of a branch name; raises BadInput."""
    if not _REFNAME.fullmatch(name) or ".." in name or name.endswith((".lock", ".")):
        raise BadInput(f"{name!r} can't be a branch name")
    return name


def remote_address(text: str) -> str:
    """Where a repository is fetched from and pushed to: https, ssh, or an existing directory here."""
    if _URL.fullmatch(text):
        return text
    path = Path(text).expanduser()
    if "://" not in text and "::" not in text and path.is_dir():
        return str(path.resolve())
    raise BadInput(f"{text!r} is not a repository: an https:// or ssh:// address, or a directory on this machine")


def _environment() -> dict[str, str]:
    name, address = "postroom", settings().mail_from
    env = {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
    }
    env |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    fixed = {
        "core.hooksPath": os.devnull,
        "core.fsmonitor": "false",
        "core.attributesFile": os.devnull,
        "commit.gpgSign": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "submodule.recurse": "false",
        "fetch.recurseSubmodules": "false",
        "protocol.allow": "never",
        "protocol.https.allow": "always",
        "protocol.ssh.allow": "always",
        "protocol.file.allow": "always",
        "safe.directory": "*",
        "init.defaultBranch": "main",
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "20",
    }
    if token := settings().site_git_token:
        # in the environment, not on the command line, where every user of the machine could read it
        basic = base64.b64encode(f"x-access-token:{token.get_secret_value()}".encode()).decode()
        fixed[f"http.https://{settings().site_git_host}/.extraHeader"] = f"Authorization: Basic {basic}"
    env["GIT_CONFIG_COUNT"] = str(len(fixed))
    for number, (key, value) in enumerate(fixed.items()):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env


def locks(directory: Path) -> Iterator[Path]:
    """Files with which git keeps others out of a bare repository while it changes something."""
    for place in ("*.lock", "refs/**/*.lock"):
        yield from directory.glob(place)


def git(
    directory: Path,
    *arguments: str,
    stdin: bytes | None = None,
    timeout: float = 60,
    codes: Sequence[int] = (0,),
    remote: bool = False,
    index: Path | None = None,
) -> tuple[int, bytes]:
    """Exit code and output of one git command in a bare repository."""
    line = ["git", f"--git-dir={directory}", *arguments]
    environment = _environment()
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        done = subprocess.run(
            line, input=stdin if stdin is not None else b"", capture_output=True, timeout=timeout,
            env=environment, cwd="/", check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise Misconfigured("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise TimedOut(f"git {arguments[0]} took more than {timeout:g} s") from None
    if done.returncode not in codes:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        if remote or any(locks(directory)):  # somebody else is at it, or was killed at it
            raise Unavailable(f"git {arguments[0]}: {said}")
        raise OurFault(f"git {arguments[0]}: {said}", code=done.returncode)
    return done.returncode, done.stdout

"""Which tool calls may run."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.agent.confine import FILE_TOOLS, Bounds, Denied


@pytest.fixture
def bounds(workspace, tmp_path):
    (tmp_path / "outside").mkdir(exist_ok=True)
    if not (workspace / "door").is_symlink():
        (workspace / "door").symlink_to(tmp_path / "outside")
    return Bounds(workspace, frozenset(FILE_TOOLS))


def test_a_call_is_rewritten_to_the_real_path(bounds, workspace):
    (workspace / "near").symlink_to(workspace / "src")
    allowed = bounds.allow("Read", {"file_path": "near/pages/../pages/index.astro"})
    assert allowed["file_path"] == str(workspace.resolve() / "src/pages/index.astro")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "door/x", "~/x", "~root/x", "src/../../x", " /etc/passwd", "a\x00b", "", "src\\..\\..\\x"],
)
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
def test_nothing_outside_is_reached(bounds, tool, path):
    with pytest.raises(Denied):
        bounds.allow(tool, {"file_path": path})


@pytest.mark.parametrize(
    "path",
    [
        *("package.json", "PACKAGE.JSON", "package-lock.json", "yarn.lock", "astro.config.mjs", "astro.config.ts"),
        *(".git/config", ".claude/settings.json", ".npmrc", "src/.env", "node_modules/x/index.js", "./package.json"),
    ],
)
def test_what_decides_which_code_runs_is_not_written(bounds, path):
    with pytest.raises(Denied):
        bounds.allow("Write", {"file_path": path, "content": "x"})


def test_it_may_read_package_json_but_not_git_or_env(bounds):
    bounds.allow("Read", {"file_path": "package.json"})
    for path in (".git/config", ".env", ".env.local"):
        with pytest.raises(Denied):
            bounds.allow("Read", {"file_path": path})


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "src/../../*", "{/etc,src}/*", "~/*", ".git/*", "a\\*"])
def test_a_pattern_stays_inside_too(bounds, pattern):
    with pytest.raises(Denied):
        bounds.allow("Glob", {"pattern": pattern})
    with pytest.raises(Denied):
        bounds.allow("Grep", {"pattern": "x", "glob": pattern})


@pytest.mark.parametrize("tool", ["Bash", "WebFetch", "Task", "NotebookEdit", "mcp__x__y", ""])
def test_other_tools_are_not_there(bounds, tool):
    with pytest.raises(Denied, match="not available"):
        bounds.allow(tool, {})


def test_a_tool_that_was_not_given_is_not_there(workspace):
    with pytest.raises(Denied, match="not available"):
        Bounds(workspace, frozenset({"Read"})).allow("Write", {"file_path": "x"})


def test_pipes_and_shared_files_are_left_alone(bounds, workspace, tmp_path):
    os.mkfifo(workspace / "pipe")
    (tmp_path / "ours").write_text("x")
    os.link(tmp_path / "ours", workspace / "shared")
    with pytest.raises(Denied, match="plain file"):
        bounds.allow("Read", {"file_path": "pipe"})
    with pytest.raises(Denied, match="hard link"):
        bounds.allow("Write", {"file_path": "shared", "content": "y"})


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(["..", ".", "src", "door", "~", "/", "etc", "x", " ", "pages"]), max_size=6))
def test_whatever_is_allowed_lies_inside(bounds, workspace, parts):
    try:
        allowed = bounds.allow("Write", {"file_path": "/".join(parts)})
    except Denied:
        return
    assert os.path.realpath(allowed["file_path"]).startswith(f"{workspace.resolve()}/")

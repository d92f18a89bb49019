"""The record of a run."""

import json

from postroom.agent.job import Result
from postroom.agent.trace import Trace, Usage, rows, session_trace, summary_log
from postroom.errors import LimitReached


def _trace() -> Trace:
    trace = Trace()
    for event in (
        {"event": "begun", "session": "s", "model": "m"},
        {"event": "tool", "id": "1", "name": "Read", "input": {"file_path": "a.md"}},
        {"event": "tool-end", "id": "1", "ok": True},
        {"event": "tool", "id": "2", "name": "Write", "input": {"file_path": "b.md", "content": "x" * 5000}},
        {"event": "refused", "name": "Write", "input": {"file_path": "b.md"}, "why": "it is protected"},
        {"event": "tool-end", "id": "2", "ok": False, "note": "denied, key sk-ant-api03-abcdefghijklmnop"},
        {"event": "tool", "id": "3", "name": "TaskCreate", "input": {"subject": "Title"}},
        {"event": "tool", "id": "4", "name": "TaskUpdate", "input": {"taskId": "1", "status": "in_progress"}},
        {"event": "tool", "id": "5", "name": "TaskUpdate", "input": {"taskId": "1", "status": "completed"}},
        {"event": "turn", "usage": {"input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": 5}},
        {"event": "retry", "status": 500, "delay": 0.5},
    ):
        trace.note(event)
    return trace


def _result() -> Result:
    usage = Usage(input=10, output=5, cache_read=30)
    error = LimitReached("out of turns", limit="turns")
    return Result("max-turns", "claude", text="Half.", turns=3, usage=usage, cost_usd=0.5, error=error, trace=_trace())


def test_the_session_trace_is_json_without_bulk_and_without_secrets():
    text = json.dumps(session_trace(_result(), correlation="task:1"))
    document = json.loads(text)
    assert "sk-ant" not in text
    assert len(text) < 5000
    assert [call["name"] for call in document["tools"]][:2] == ["Read", "Write"]
    assert document["tools"][0]["seconds"] is not None
    assert document["cache_efficiency"] == 0.75
    assert document["refused"][0]["why"] == "it is protected"
    assert document["todos"][0]["finished"] >= document["todos"][0]["started"]
    assert document["error"] == {"category": "limit", "message": "out of turns"}
    assert document["partial"] is True


def test_the_summary_fits_on_a_page_and_names_what_matters():
    page = summary_log(_result(), correlation="task:1")
    assert len(page.splitlines()) < 60
    for word in ("task:1: max-turns", "$0.5000", "75% from the cache", "out of turns", "refused", "Title", "Half."):
        assert word in page


def test_the_table_has_a_row_for_each_call_and_refusal():
    table = rows(_result())
    assert [row["what"] for row in table if "refused" in row["what"]] == ["Write (refused)"]
    assert len(table) == 6


def test_a_killed_run_has_counted_what_it_used():
    assert _trace().usage == Usage(input=10, output=5, cache_read=30)

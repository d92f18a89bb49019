"""What a run's last events mean: an outcome, and an error of our tree when it is not success."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from postroom.agent.job import Outcome, error_of
from postroom.errors import (
    AuthFailed,
    BadInput,
    LimitReached,
    Misconfigured,
    Missing,
    NetworkDown,
    OurFault,
    PostroomError,
    RateLimited,
    Unavailable,
    Unparsable,
    from_status,
)

_SUBTYPES: dict[str, Outcome] = {"error_max_turns": "max-turns", "error_max_budget_usd": "budget"}
_REASONS: dict[str, Outcome] = {
    "max_turns": "max-turns",
    "max_budget_usd": "budget",
    "aborted_streaming": "interrupted",
    "aborted_tools": "interrupted",
}
_KINDS: dict[str, type[PostroomError]] = {
    "authentication_failed": AuthFailed,
    "oauth_org_not_allowed": AuthFailed,
    "billing_error": LimitReached,
    "rate_limit": RateLimited,
    "overloaded": Unavailable,
    "server_error": Unavailable,
    "invalid_request": BadInput,
    "request_too_large": BadInput,
    "model_not_found": Missing,
}


class Verdict:
    """Listens to the events and, at the end, says what they meant."""

    def __init__(self) -> None:
        self.result: Mapping[str, Any] | None = None
        self.fault: Mapping[str, Any] | None = None
        self.kind: str | None = None
        self.kind_text = ""
        self.retry: Mapping[str, Any] | None = None
        self.resets_at: float | None = None

    def note(self, event: Mapping[str, Any]) -> None:
        match event.get("event"):
            case "result":
                self.result = event
            case "error":
                self.fault = event
            case "api-error":
                self.kind, self.kind_text = str(event.get("kind")), str(event.get("text") or "")
            case "retry":
                self.retry = event
            case "limit" if event.get("status") == "rejected" and event.get("resets_at"):
                self.resets_at = float(event["resets_at"])
            case "said" | "tool":
                self.retry = None  # that call went through after all

    def reach(self, *, wants_output: bool, exit_code: int | None) -> tuple[Outcome, PostroomError | None]:
        """The outcome, and the error unless it is `done`."""
        if self.result is None:
            return "failed", self._without_result(exit_code)
        subtype, reason = str(self.result.get("subtype")), str(self.result.get("terminal_reason"))
        if outcome := _SUBTYPES.get(subtype) or _REASONS.get(reason):
            return outcome, error_of(outcome)
        if subtype == "error_max_structured_output_retries":
            return "failed", Unparsable("the agent's answer never matched the output schema")
        if self.result.get("is_error") or subtype != "success":
            return "failed", self._refusal(self.result.get("status"), str(self.result.get("text") or subtype))
        if wants_output and self.result.get("output") is None:
            return "failed", Unparsable("the agent ended without the structured answer it was asked for")
        return "done", None

    def retry_after(self) -> float | None:
        """Seconds until the endpoint said it would answer again; the CLI's own pauses are no such word."""
        return None if self.resets_at is None else max(0.0, self.resets_at - time.time())

    def _refusal(self, status: Any, text: str) -> PostroomError:
        """By status, then by the CLI's own name for the error, then as a network fault if calls were retried."""
        said = f"the model's endpoint refused: {text}"
        if isinstance(status, int) and status:
            return from_status(status, said, retry_after=self.retry_after())
        if self.kind == "rate_limit":
            return RateLimited(said, retry_after=self.retry_after())
        if self.kind in _KINDS and self.kind != "server_error":
            return _KINDS[self.kind](said)
        # a server that answers has a status; without one nobody answered
        if self.kind in ("unknown", "server_error") or (self.retry is not None and self.retry.get("status") is None):
            return NetworkDown(f"the model's endpoint could not be reached: {text}")
        return Unavailable(said)

    def _without_result(self, exit_code: int | None) -> PostroomError:
        if self.retry is not None and self.retry.get("status"):  # given up at once, see the child
            return self._refusal(self.retry["status"], f"status {self.retry['status']}")
        if self.fault is not None:
            kind, message = str(self.fault.get("kind")), str(self.fault.get("message"))
            if kind == "CLINotFoundError":
                return Missing(f"the claude CLI is not there: {message}")
            if kind in ("CLIJSONDecodeError", "MessageParseError"):
                return Unparsable(f"the claude CLI said something unreadable: {message}")
            if kind in ("CLIConnectionError", "ProcessError", "ResultError"):
                return Unavailable(f"the claude CLI failed: {message}")
            return OurFault(f"{kind}: {message}")
        if exit_code == 126:  # said by the sandbox itself; the lines above tell what it could not start
            return Misconfigured("the sandbox could not start the agent: its user must be able to read the interpreter")
        return Unavailable(f"the agent's process ended without a result (exit code {exit_code})")

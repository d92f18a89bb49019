"""From an HTTP request to one of our operations and back, by botocore's own model of SES v2."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel


class Refused(Exception):
    """An error as AWS answers it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass
class Call:
    """One request: who asks, and what with."""

    account: str
    region: str
    given: dict[str, Any]  # the body's members, and those of path and query string
    at: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A member that must be there."""
        value = self.given.get(name)
        if not isinstance(value, str) or not value.strip():
            raise Refused("BadRequestException", f"{name} must be given.")
        return value


Operation = Callable[[Call], dict[str, Any]]


@functools.cache
def model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sesv2", "service-2"), "sesv2")


def status_of(code: str) -> int:
    """The HTTP status AWS gives with an error."""
    shape = model().shape_for(code)
    return int(shape.metadata.get("error", {}).get("httpStatusCode", 400))


class Routes:
    """Our operations by method and path."""

    def __init__(self, operations: dict[str, Operation]) -> None:
        self.operations = operations
        self.routes: list[tuple[str, re.Pattern[str], OperationModel]] = []
        for name in operations:
            operation = model().operation_model(name)
            uri = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", operation.http["requestUri"])
            self.routes.append((operation.http["method"], re.compile(uri), operation))

    def find(self, method: str, path: str) -> tuple[OperationModel, dict[str, str]] | None:
        for wanted, pattern, operation in self.routes:
            if wanted == method and (match := pattern.fullmatch(path)):
                return operation, match.groupdict()
        return None


def from_query(operation: OperationModel, query: dict[str, list[str]]) -> dict[str, Any]:
    """Members that travel in the query string."""
    given: dict[str, Any] = {}
    for name, shape in operation.input_shape.members.items():
        if shape.serialization.get("location") == "querystring":
            values = query.get(shape.serialization.get("name", name))
            if values:
                given[name] = values if shape.type_name == "list" else values[0]
    return given

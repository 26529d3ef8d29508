"""What all operations share: the gateway's address, the cluster that is meant, and how answers are read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from clusterra.context import ConfigError
from clusterra.errors import NotClusterra, media_type
from clusterra.exchange import Answer, Method, Request, Steps
from clusterra.http.retrying import ask

CLUSTER = "{cluster}"
"""Stands in a path for the cluster that is meant."""
JOB_ID = re.compile(r"[1-9][0-9]{0,9}(_[0-9]{1,7})?")
"""A job, or a task of an array."""
JOBS = re.compile(r"[1-9][0-9]{0,9}(_([0-9]{1,7}|\[[0-9,:-]{1,500}\]))?")
"""A job, a task of an array, or several tasks of one in Slurm's notation."""
MAX_PAGE = 1000
"""The most jobs of a page."""

type Value = str | int | bool | datetime | date | Sequence[str] | None
"""The value of a query parameter; None for one that is not sent."""


@dataclass(frozen=True, slots=True)
class Api:
    """One gateway, and the cluster of it that is meant where none is named."""

    url: str
    cluster: str | None = None

    def placed(self, path: str) -> str:
        """A path from `/v1` on, in which `{cluster}` is the cluster that is meant.

        Raises ConfigError where no cluster is named, and ValueError for a path that is none of the API.
        """
        if not path.startswith("/") or path.startswith("//") or any(each.isspace() or each in "?#\\" for each in path):
            raise ValueError(f"a path begins with /v1, and has no query: {path[:80]!r}")
        return path.replace(f"/v1/clusters/{CLUSTER}", self.on("").rstrip("/"), 1) if CLUSTER in path else path

    def on(self, path: str, cluster: str | None = None) -> str:
        """A path below a cluster. Raises ConfigError where no cluster is named."""
        named = cluster or self.cluster
        if not named:
            raise ConfigError("no cluster is named: give `cluster`, set CLUSTERRA_CLUSTER, or choose one in a context")
        return f"/v1/clusters/{segment(named)}/{path}"

    def ask(self, request: Request) -> Steps[Answer]:
        """The answer to a request. Raises the errors of `clusterra.errors`."""
        return (yield from ask(request, self.url))

    def read[M: BaseModel](self, model: type[M], asked: str | Request) -> Steps[M]:
        """What is read at a path, or by a request. Raises the errors of `clusterra.errors`."""
        request = Request("GET", asked) if isinstance(asked, str) else asked
        return self.parsed(model, (yield from self.ask(request)))

    def carried_out(self, request: Request) -> Steps[Answer]:
        """The answer to a change. Raises NotClusterra where a page of something else answers in the gateway's place."""
        answer = yield from self.ask(request)
        if answer.body and media_type(answer) != "application/json":
            raise NotClusterra(self.url, answer.status, answer.body)
        return answer

    def sent(self, request: Request) -> Steps[Answer]:
        """The answer to any request, which is JSON if the request changes something. Raises as `carried_out` does."""
        return self.ask(request) if request.method == "GET" else self.carried_out(request)

    def parsed[M: BaseModel](self, model: type[M], answer: Answer) -> M:
        """An answer as a model. Raises NotClusterra for one of another shape."""
        if media_type(answer) != "application/json":
            raise NotClusterra(self.url, answer.status, answer.body)
        try:
            return model.model_validate_json(answer.body)
        except ValidationError:
            raise NotClusterra(self.url, answer.status, answer.body) from None


def any_request(api: Api, method: Method, path: str, values: Mapping[str, Value] | None, body: object) -> Request:
    """A request of the caller's own. Raises ValueError for a path that is none of the API, and ConfigError."""
    return Request(method, api.placed(path), query(values or {}), body)


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def query(values: Mapping[str, Value]) -> dict[str, str | Sequence[str]]:
    """The query parameters that are given. Moments without a zone are those of this machine's clock."""
    return {name: _written(value) for name, value in values.items() if value is not None and value != ()}


def _written(value: Any) -> str | Sequence[str]:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case str():
            return value
        case int():
            return str(value)
    return tuple(value)

"""Log lines: their fields, and what they hide."""

import io
import json
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from clusterra_runtime import logs, trace

type Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    output = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        logs.configure("proxy", "INFO", instance="proxy-1")
    return lambda: [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_log_line_has_its_identity_context_and_fields(lines: Lines) -> None:
    with trace.extract(None), structlog.contextvars.bound_contextvars(tenant="acme", cluster="c1"):
        structlog.get_logger("x").info("job_submitted", job_id="42", count=3)
        running = trace.trace_id()
    (line,) = lines()

    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "event": "job_submitted",
        "service": "proxy",
        "instance": "proxy-1",
        "tenant": "acme",
        "cluster": "c1",
        "trace": running,
        "job_id": "42",
        "count": 3,
    }


def test_log_lines_of_libraries_have_the_same_form(lines: Lines) -> None:
    logging.getLogger("library").warning("%s of %d", "part", 7)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", stacklevel=1)
    logged, warned = lines()

    assert (logged["event"], logged["level"], logged["service"]) == ("part of 7", "warning", "proxy")
    assert "old ways" in warned["event"]


def test_lines_below_the_level_are_not_logged(lines: Lines) -> None:
    structlog.get_logger().debug("too much")
    logging.getLogger("library").debug("too much")
    assert lines() == []


def test_an_exception_is_one_line_without_the_values_of_variables(lines: Lines) -> None:
    def fail(password: str) -> None:
        raise ValueError("it broke")

    try:
        fail("xyz" + "zy")
    except ValueError:
        structlog.get_logger().exception("failed")
        logging.getLogger("library").exception("failed too")
    ours, theirs = lines()

    assert "ValueError: it broke" in ours["exception"]
    assert "ValueError: it broke" in theirs["exception"]
    assert "xyzzy" not in json.dumps([ours, theirs])


@pytest.mark.parametrize(
    "field", ["password", "nats_password", "token", "access_token", "Authorization", "jwt_key", "cookie", "secret"]
)
def test_fields_named_like_secrets_are_hidden(lines: Lines, field: str) -> None:
    structlog.get_logger().info("login", **{field: "xyzzy"}, headers={field: "xyzzy", "path": "/v1"})
    (line,) = lines()
    assert line[field] == "[hidden]"
    assert line["headers"] == {field: "[hidden]", "path": "/v1"}


def test_passwords_in_addresses_are_hidden(lines: Lines) -> None:
    structlog.get_logger().info("connect", to="nats://svc:xyzzy@host:4222")
    logging.getLogger("library").info("connect to nats://svc:xyzzy@host:4222")
    ours, theirs = lines()
    assert ours["to"] == "nats://[hidden]@host:4222"
    assert theirs["event"] == "connect to nats://[hidden]@host:4222"


def test_values_that_json_cannot_represent_are_logged_as_strings(lines: Lines) -> None:
    structlog.get_logger().info("odd", value=object, key={1: sys})
    (line,) = lines()
    assert line["value"] == "<class 'object'>"

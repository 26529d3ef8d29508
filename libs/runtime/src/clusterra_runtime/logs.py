"""Logs: one JSON object per line on standard output, for our own log lines and those of libraries."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson
import structlog

from clusterra_runtime import trace

_SECRET_KEYS = re.compile(r"password|passwd|secret|token|authorization|cookie|credential|seed|jwt", re.IGNORECASE)
_SAFE_KEYS = frozenset({"token_id", "secret_reference"})
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_HIDDEN = "[hidden]"
_CHATTY = ("boto3", "botocore", "s3transfer", "urllib3")
"""At DEBUG, AWS's SDK logs whole requests and answers: signatures, and the values of secrets that it reads."""

type Entry = MutableMapping[str, Any]


def configure(service: str, level: str = "INFO", *, instance: str = "") -> None:
    """Send structlog and the standard library's logging to standard output, from `level` on.

    Every line has `ts` (UTC), `level`, `event`, `service` and `instance`. Lines also have `tenant` and `cluster` where
    `structlog.contextvars` binds them, and inside a trace its id as `trace`.
    """

    def add_identity(_logger: Any, _method: str, entry: Entry) -> Entry:
        entry["service"] = service
        if instance:
            entry["instance"] = instance
        if (running := trace.trace_id()) is not None:
            entry["trace"] = running
        return entry

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.stdlib.ExtraAdder(("subject", "queue", "stream")),
        add_identity,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.PositionalArgumentsFormatter(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _line],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.INFO, root.level))
    logging.captureWarnings(True)


def hide_secrets(_logger: Any, _method: str, entry: Entry) -> Entry:
    """Hide the values of fields that are named like secrets, and users and passwords in addresses."""
    for key, value in entry.items():
        entry[key] = _visible(key, value)
    return entry


def _visible(key: Any, value: Any) -> Any:
    if _SECRET_KEYS.search(str(key)) and key not in _SAFE_KEYS:
        return _HIDDEN
    if isinstance(value, dict):
        return {inner: _visible(inner, content) for inner, content in value.items()}
    if isinstance(value, str) and "://" in value:
        return _USERINFO.sub(f"{_HIDDEN}@", value)
    return value


def _line(_logger: Any, _method: str, entry: Entry) -> str:
    ordered = {key: entry.pop(key) for key in ("ts", "level", "event") if key in entry}
    return orjson.dumps({**ordered, **entry}, default=str, option=orjson.OPT_NON_STR_KEYS).decode()

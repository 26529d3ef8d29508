"""The envelope of a message: JSON in the body, metadata in headers."""

import gzip
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from clusterra_contracts.identity import arrival
from clusterra_contracts.wrong_values import NOT_KNOWN, summary

MESSAGE_ID = "Nats-Msg-Id"
"""JetStream's deduplication header."""
CONTENT_TYPE = "content-type"
CONTENT_ENCODING = "content-encoding"
SCHEMA = "x-schema"
TRACEPARENT = "traceparent"

JSON = "application/json"
GZIP = "gzip"
COMPRESS_FROM_BYTES = 64 * 1024
"""Bodies of this size and above are compressed. Large queue snapshots have a form of their own (`bus.large_queue`)."""
MAX_DECODED_BYTES = 64 * 1024 * 1024


class InvalidMessage(ValueError):
    """A body does not match the model of its subject. It can never be handled and belongs in the dead letters."""


class Message(Protocol):
    """A wire model that is sent as a message, not only as part of one."""

    schema_name: ClassVar[str]

    def model_dump_json(self) -> str: ...  # noqa: D102


def encode(message: Message, *, message_id: str | None = None) -> tuple[bytes, dict[str, str]]:
    """Returns the body and headers of a message. JetStream drops a second message with the same `message_id`."""
    body = message.model_dump_json().encode()
    headers = {CONTENT_TYPE: JSON, SCHEMA: message.schema_name}
    if message_id is not None:
        headers[MESSAGE_ID] = message_id
    if len(body) >= COMPRESS_FROM_BYTES:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers[CONTENT_ENCODING] = GZIP
    return body, headers


def decode[M: BaseModel](model: type[M], body: bytes, headers: Mapping[str, str] | None = None) -> M:
    """Parses a body as `model`. Raises InvalidMessage, which names the invalid fields but not their values."""
    if (headers or {}).get(CONTENT_ENCODING) == GZIP:
        body = _decompress(body, MAX_DECODED_BYTES)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(model, error) from None


def decode_foreign[M: BaseModel](
    model: type[M],
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    max_bytes: int,
    max_values: int | None = None,
) -> M:
    """Parses a body from outside the central side, of at most `max_bytes` when decompressed. Raises InvalidMessage.

    `max_values`: how many values it may have, those in lists and objects included.

    Unlike `decode` it makes the values before it checks them: each error of pydantic's JSON mode holds a copy of what
    it is about, so that a few MiB of garbage took ten seconds and a gigabyte. Times are bounded around now.
    """
    if (headers or {}).get(CONTENT_ENCODING) == GZIP:
        body = _decompress(body, max_bytes)
    if len(body) > max_bytes:
        raise InvalidMessage(f"the body has more than {max_bytes} bytes")
    try:
        content = from_json(body, cache_strings="none")
    except ValueError as error:
        raise InvalidMessage(f"invalid {model.__name__}: not JSON: {error}") from None
    if max_values is not None and has_more_values(content, max_values):
        raise InvalidMessage(f"the body has more than {max_values} values")
    try:
        return model.model_validate(content, context=arrival())
    except ValidationError as error:
        raise _invalid(model, error, content) from None


def has_more_values(content: Any, most: int) -> bool:
    """Return whether parsed JSON has more than `most` values. Looks at no more than these."""
    values = 0
    containers = [content]
    while containers:
        each = containers.pop()
        if not isinstance(each, dict | list):
            continue
        values += len(each)
        if values > most:
            return True
        containers.extend(each.values() if isinstance(each, dict) else each)
    return False


def _invalid(model: type[BaseModel], error: ValidationError, content: object = NOT_KNOWN) -> InvalidMessage:
    return InvalidMessage(f"invalid {model.__name__}: {summary(error, content, whole='body')}")


def _decompress(body: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(body, max_bytes)
    except zlib.error as error:
        raise InvalidMessage(f"the body is not valid gzip, although its header says so: {error}") from None
    if not stream.eof:
        raise InvalidMessage(f"the compressed body is truncated, or has more than {max_bytes} bytes")
    return plain

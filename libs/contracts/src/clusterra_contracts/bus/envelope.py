"""How a message travels: JSON in the body, everything about the message in headers."""

import gzip
import zlib
from typing import ClassVar, Protocol

from pydantic import BaseModel, ValidationError

MESSAGE_ID = "Nats-Msg-Id"
"""JetStream's deduplication header."""
CONTENT_TYPE = "content-type"
CONTENT_ENCODING = "content-encoding"
SCHEMA = "x-schema"
TRACEPARENT = "traceparent"

JSON = "application/json"
GZIP = "gzip"
COMPRESS_FROM_BYTES = 64 * 1024
"""Bodies from this size are compressed: a snapshot of thousands of jobs must fit NATS' payload limit."""
MAX_DECODED_BYTES = 64 * 1024 * 1024


class InvalidMessage(ValueError):
    """A body that is not what its subject promises. It can never be handled: it belongs in the dead letters."""


class Message(Protocol):
    """A wire model that is sent as a message of its own."""

    schema_name: ClassVar[str]

    def model_dump_json(self) -> str: ...  # noqa: D102


def encode(message: Message, *, message_id: str | None = None) -> tuple[bytes, dict[str, str]]:
    """The body and headers of a message. `message_id` makes JetStream drop a repetition."""
    body = message.model_dump_json().encode()
    headers = {CONTENT_TYPE: JSON, SCHEMA: message.schema_name}
    if message_id is not None:
        headers[MESSAGE_ID] = message_id
    if len(body) >= COMPRESS_FROM_BYTES:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers[CONTENT_ENCODING] = GZIP
    return body, headers


def decode[M: BaseModel](model: type[M], body: bytes, headers: dict[str, str] | None = None) -> M:
    """Read a body as `model`. Raises InvalidMessage, whose text names the fields but not their values."""
    if (headers or {}).get(CONTENT_ENCODING) == GZIP:
        body = _decompress(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'body'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)[:5]
        )
        raise InvalidMessage(f"no valid {model.__name__}: {problems}") from None


def _decompress(body: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(body, MAX_DECODED_BYTES)
    except zlib.error as error:
        raise InvalidMessage(f"the body is not the gzip it claims to be: {error}") from None
    if not stream.eof:
        raise InvalidMessage("the compressed body is cut off or larger than any message")
    return plain

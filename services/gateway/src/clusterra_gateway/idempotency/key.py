"""The Idempotency-Key of a request, whose it is, and where keys are kept."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.item import Key
from pydantic import StringConstraints, TypeAdapter, ValidationError

from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import Parameter

KEEP_HOURS = 24
KEEP_SECONDS = KEEP_HOURS * 3600
"""How long a key lives after its last attempt. Then its item expires."""
REPLAYED = "Idempotent-Replayed"
"""The header of an answer to a request that was carried out before, with the same key."""

IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "^[A-Za-z0-9_-]{8,64}$",
    f"Makes it safe to send again: one key, one job or change. It lives for {KEEP_HOURS} h after its last attempt.",
    refuses=(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
)
_KEY: TypeAdapter[str] = TypeAdapter(Annotated[str, StringConstraints(pattern=IDEMPOTENCY_KEY.pattern)])


@dataclass(frozen=True)
class ScopedKey:
    """A client's key. It is valid for one person on one cluster."""

    ref: ClusterRef
    member: str
    key: str

    @property
    def identity(self) -> str:
        """Distinguishes the key from the same key of other people, and on other clusters."""
        return f"{self.ref.key}#{self.member}#{self.key}"

    def place(self, of: Literal["submit", "change"]) -> Key:
        """Where its claim is stored. A submit and a change of a job may have the same key."""
        return Key(self.identity, of)


def idempotency_key(request: web.Request) -> str | None:
    """Reads the Idempotency-Key; None when there is none. Raises InvalidRequest for a malformed one."""
    given = request.headers.get(IDEMPOTENCY_KEY.name)
    if given is None:
        return None
    try:
        return _KEY.validate_python(given.strip('"'))
    except ValidationError:
        raise InvalidRequest(
            "the Idempotency-Key is malformed", hint="use 8 to 64 letters, digits, - or _, such as a UUID"
        ) from None

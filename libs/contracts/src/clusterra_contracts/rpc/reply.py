"""The envelope of every reply on the bus: a result or an error."""

from functools import cache
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from clusterra_contracts.identity import Wire

ErrorKind = Literal[
    "invalid",
    "rejected",
    "unauthenticated",
    "forbidden",
    "not_found",
    "conflict",
    "unavailable",
]
"""`invalid`: the request is malformed; `rejected`: Slurm rejected it; `unavailable`: try again later."""


class RpcError(Wire):
    """Why a request failed, for the person who made it to read."""

    kind: ErrorKind
    detail: str
    hint: str = ""
    """What to do about it."""
    code: int | None = None
    """Slurm's error number, if the error came from Slurm."""
    internal: bool = False
    """The answer cannot be sent or read: no fault of the request, and trying again may not help."""
    effect: Literal["none", "unknown"] | None = None
    """Whether the failed request may have changed something after all; None: see `may_have_effect`."""

    @property
    def may_have_effect(self) -> bool:
        """Whether the request may have been carried out. Without a statement, only `unavailable` leaves that open."""
        return self.effect == "unknown" or (self.effect is None and self.kind == "unavailable")


class Reply[T: Wire](Wire):
    """Exactly one of `result` and `error` is set."""

    schema_name: ClassVar[str] = "rpc.reply.v1"

    result: T | None = None
    error: RpcError | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.result is None) == (self.error is None):
            raise ValueError("a reply must hold either a result or an error")
        return self


@cache
def reply_of[T: Wire](result: type[T]) -> type[Reply[T]]:
    """The model of replies with this result. Pydantic keeps no reference to a model that it makes from a generic one.

    Without this cache it would be built again after each garbage collection, which takes up to 2 ms.
    """
    return Reply[result]  # type: ignore[valid-type]


class Done(Wire):
    """The result of a request that returns nothing."""

    schema_name: ClassVar[str] = "rpc.done.v1"

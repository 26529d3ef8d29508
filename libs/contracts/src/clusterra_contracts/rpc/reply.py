"""The envelope of every reply on the bus: a result, or an error of a named kind."""

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
"""`invalid`: the request is malformed; `rejected`: Slurm refused it; `unavailable`: try again later."""


class RpcError(Wire):
    """Why a request failed, in words for the person who made it."""

    kind: ErrorKind
    detail: str
    hint: str = ""
    """What to do about it."""
    code: int | None = None
    """Slurm's own error number, where there is one."""


class Reply[T: Wire](Wire):
    """Exactly one of `result` and `error` is set."""

    schema_name: ClassVar[str] = "rpc.reply.v1"

    result: T | None = None
    error: RpcError | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.result is None) == (self.error is None):
            raise ValueError("a reply holds either a result or an error")
        return self


class Done(Wire):
    """The result of a request that has nothing to tell."""

    schema_name: ClassVar[str] = "rpc.done.v1"

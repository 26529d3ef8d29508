"""Errors of requests: one type per error kind. Each is sent to the caller unchanged."""

from typing import ClassVar

from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats.rpc import RpcFailed


class SlurmFailed(RpcFailed):
    """A failed request. `code` is Slurm's own error number, if there is one: also where Slurm was not asked."""

    kind: ClassVar[ErrorKind]

    def __init__(self, detail: str, *, hint: str = "", code: int | None = None) -> None:
        super().__init__(RpcError(kind=self.kind, detail=detail, hint=hint, code=code))


class Invalid(SlurmFailed):
    """The request is malformed; it was not sent to Slurm."""

    kind = "invalid"


class Rejected(SlurmFailed):
    """Slurm rejected the request."""

    kind = "rejected"


class Unauthenticated(SlurmFailed):
    """Slurm rejects the proxy's tokens, or the proxy mints no token for this identity."""

    kind = "unauthenticated"


class Forbidden(SlurmFailed):
    """The user is not allowed to do this."""

    kind = "forbidden"


class NotFound(SlurmFailed):
    """The job, node or cluster does not exist."""

    kind = "not_found"


class Conflict(SlurmFailed):
    """The request conflicts with the current state."""

    kind = "conflict"


class Unavailable(SlurmFailed):
    """Slurm does not respond at the moment. The request may or may not have taken effect."""

    kind = "unavailable"


class Unreachable(Unavailable):
    """slurmrestd was not reached, or the connection broke: the outcome of the request is unknown."""


class NotSent(Unreachable):
    """There was no connection to slurmrestd, so the request had no effect."""


class BadAnswer(Unavailable):
    """slurmrestd answered, and the answer cannot be used: trying again may not help."""

    def __init__(self, detail: str, *, hint: str = "", code: int | None = None) -> None:
        super().__init__(detail, hint=hint, code=code)
        self.error = self.error.model_copy(update={"internal": True})


class NotUnderstood(BadAnswer):
    """slurmrestd could not read the request, so it passed nothing on to slurmctld."""


class OutcomeUnknown(Unavailable):
    """A submit was sent and not confirmed: there may be a job."""

    def __init__(self, detail: str, *, hint: str = "", code: int | None = None) -> None:
        super().__init__(detail, hint=hint, code=code)
        self.error = self.error.model_copy(update={"effect": "unknown"})

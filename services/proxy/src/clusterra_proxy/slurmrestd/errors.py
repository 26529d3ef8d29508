"""Why a request fails: one type per kind, each answered to the caller as it is."""

from typing import ClassVar

from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats.rpc import RpcFailed


class SlurmFailed(RpcFailed):
    """A request that cannot be done. `code` is Slurm's own error number, where there is one."""

    kind: ClassVar[ErrorKind]

    def __init__(self, detail: str, *, hint: str = "", code: int | None = None) -> None:
        super().__init__(RpcError(kind=self.kind, detail=detail, hint=hint, code=code))


class Invalid(SlurmFailed):
    """The request itself is malformed; Slurm was not asked."""

    kind = "invalid"


class Rejected(SlurmFailed):
    """Slurm refused it."""

    kind = "rejected"


class Unauthenticated(SlurmFailed):
    """Slurm does not take our tokens, or we mint none for this identity."""

    kind = "unauthenticated"


class Forbidden(SlurmFailed):
    """This user may not do it."""

    kind = "forbidden"


class NotFound(SlurmFailed):
    """There is no such job, node or cluster."""

    kind = "not_found"


class Conflict(SlurmFailed):
    """It does not go together with the state things are in."""

    kind = "conflict"


class Unavailable(SlurmFailed):
    """Slurm cannot be asked at the moment. What was asked may or may not have been done."""

    kind = "unavailable"


class Unreachable(Unavailable):
    """slurmrestd was not reached, or the connection broke: nothing is known of the request."""

"""The errors of this room as answers to requests."""

from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_edge_agent.folders.user_process import FolderRefused, FolderUnavailable

_KINDS: dict[str, ErrorKind] = {
    "missing": "not_found",
    "denied": "forbidden",
    "right": "conflict",
    "other": "rejected",
}


def failed(kind: ErrorKind, detail: str, hint: str) -> RpcFailed:
    """An answer with an error."""
    return RpcFailed(RpcError(kind=kind, detail=detail, hint=hint))


def failure(error: FolderRefused | FolderUnavailable) -> RpcFailed:
    """The answer that says why a file or a folder was not opened."""
    if isinstance(error, FolderUnavailable):
        return failed("unavailable", str(error), "try again in a moment")
    hint = "ask the operators to give it this right" if error.reason == "right" else "list the folder above it"
    return failed(_KINDS[error.reason], str(error), hint)

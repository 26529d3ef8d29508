"""Clusterra from Python: submit jobs, follow their output, wait for their end.

    from clusterra import Client

    with Client() as client:
        job = client.submit("#!/bin/sh\\necho hello")
        for text in job.follow():
            print(text, end="")
        print(job.result().exit_code)

Names are loaded when they are first used: `import clusterra` alone loads nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterra.async_client import AsyncClient
    from clusterra.async_job import AsyncJob
    from clusterra.client import Client
    from clusterra.errors import (
        ApiError,
        BucketRefused,
        ClusterraError,
        ConfirmationRequired,
        FileChanged,
        Forbidden,
        NotClusterra,
        NotFound,
        OutcomeUnknown,
        QuotaExceeded,
        Refused,
        SignInNeeded,
        TooManyRequests,
        Unavailable,
        Unreachable,
        WaitTimeout,
    )
    from clusterra.executor.errors import CallFailed
    from clusterra.executor.executor import ClusterExecutor
    from clusterra.job import Job
    from clusterra.result import Result

__all__ = (
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "BucketRefused",
    "CallFailed",
    "Client",
    "ClusterExecutor",
    "ClusterraError",
    "ConfirmationRequired",
    "FileChanged",
    "Forbidden",
    "Job",
    "NotClusterra",
    "NotFound",
    "OutcomeUnknown",
    "QuotaExceeded",
    "Refused",
    "Result",
    "SignInNeeded",
    "TooManyRequests",
    "Unavailable",
    "Unreachable",
    "WaitTimeout",
)
_PLACES = {
    "AsyncClient": "async_client",
    "AsyncJob": "async_job",
    "CallFailed": "executor.errors",
    "Client": "client",
    "ClusterExecutor": "executor.executor",
    "Job": "job",
    "Result": "result",
}
"""The modules of the names that are no errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

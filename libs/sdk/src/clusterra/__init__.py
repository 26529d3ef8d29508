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
    from clusterra.async_client import AsyncClient as AsyncClient
    from clusterra.async_job import AsyncJob as AsyncJob
    from clusterra.client import Client as Client
    from clusterra.errors import (
        ApiError as ApiError,
    )
    from clusterra.errors import (
        ClusterraError as ClusterraError,
    )
    from clusterra.errors import (
        ConfirmationRequired as ConfirmationRequired,
    )
    from clusterra.errors import (
        Forbidden as Forbidden,
    )
    from clusterra.errors import (
        NotClusterra as NotClusterra,
    )
    from clusterra.errors import (
        NotFound as NotFound,
    )
    from clusterra.errors import (
        OutcomeUnknown as OutcomeUnknown,
    )
    from clusterra.errors import (
        QuotaExceeded as QuotaExceeded,
    )
    from clusterra.errors import (
        Refused as Refused,
    )
    from clusterra.errors import (
        SignInNeeded as SignInNeeded,
    )
    from clusterra.errors import (
        TooManyRequests as TooManyRequests,
    )
    from clusterra.errors import (
        Unavailable as Unavailable,
    )
    from clusterra.errors import (
        Unreachable as Unreachable,
    )
    from clusterra.errors import (
        WaitTimeout as WaitTimeout,
    )
    from clusterra.job import Job as Job
    from clusterra.result import Result as Result

_ERRORS = (
    "ApiError",
    "ClusterraError",
    "ConfirmationRequired",
    "Forbidden",
    "NotClusterra",
    "NotFound",
    "OutcomeUnknown",
    "QuotaExceeded",
    "Refused",
    "SignInNeeded",
    "TooManyRequests",
    "Unavailable",
    "Unreachable",
    "WaitTimeout",
)
_PLACES = {
    "AsyncClient": "async_client",
    "AsyncJob": "async_job",
    "Client": "client",
    "Job": "job",
    "Result": "result",
    **dict.fromkeys(_ERRORS, "errors"),
}

__all__ = tuple(sorted(_PLACES))


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})

"""Times the parts of each submit inside the gateway and the proxy, for `gateway.submit_parts`.

Python imports this module at the start of every process that has its folder on PYTHONPATH. Only a process that runs one
of the two services is changed: it appends a JSON line for each submit to the file that BENCH_SUBMIT_PARTS names, with
the seconds of each part.
"""

import functools
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_submit: ContextVar[dict[str, float] | None] = ContextVar("submit", default=None)


def timed(owner: Any, name: str, part: str) -> None:
    """Have a function add what it takes to a part of the current submit."""
    plain = getattr(owner, name)

    def add(began: float) -> None:
        if (parts := _submit.get()) is not None:
            parts[part] = parts.get(part, 0.0) + time.perf_counter() - began

    @functools.wraps(plain)
    def call(*args: Any, **more: Any) -> Any:
        began = time.perf_counter()
        try:
            return plain(*args, **more)
        finally:
            add(began)

    @functools.wraps(plain)
    async def wait(*args: Any, **more: Any) -> Any:
        began = time.perf_counter()
        try:
            return await plain(*args, **more)
        finally:
            add(began)

    setattr(owner, name, wait if inspect.iscoroutinefunction(plain) else call)


def counted(owner: Any, name: str, path: str, whole: str, *, is_submit: Callable[..., bool] = lambda *_: True) -> None:
    """Have a function write the parts of each submit that it carries out, with `whole` for all of it."""
    plain = getattr(owner, name)
    file = Path(path).open("a", buffering=1)  # noqa: SIM115 - open as long as the process

    @functools.wraps(plain)
    async def carry_out(*args: Any, **more: Any) -> Any:
        if not is_submit(*args):
            return await plain(*args, **more)
        parts: dict[str, float] = {}
        token, began = _submit.set(parts), time.perf_counter()
        try:
            return await plain(*args, **more)
        finally:
            parts[whole] = time.perf_counter() - began
            _submit.reset(token)
            file.write(json.dumps(parts) + "\n")

    setattr(owner, name, carry_out)


def time_gateway(path: str) -> None:
    """The parts of a submit in the gateway. Each is awaited by the whole itself, so none is counted twice."""
    from clusterra_gateway.bus.requests import SlurmRequests
    from clusterra_gateway.http.server.server import Connection
    from clusterra_gateway.identity.access.access import Access
    from clusterra_gateway.identity.access.limits import RateLimits
    from clusterra_gateway.jobs import handlers
    from clusterra_gateway.money.quotas.admission import Admission
    from clusterra_gateway.money.quotas.reservations import Reservations
    from clusterra_gateway.submits.desk import SubmitDesk
    from clusterra_gateway.submits.keys import SubmitKeys

    timed(Access, "caller", "authentication")
    timed(RateLimits, "admit", "limits")
    timed(Access, "on_cluster", "unix_user")
    timed(handlers, "read_any_submission", "reading")
    timed(SubmitDesk, "_plan", "plan")
    timed(Admission, "admitted", "quotas")
    timed(SubmitKeys, "claim", "claim")
    timed(SlurmRequests, "submit", "bus_and_proxy")
    timed(SubmitKeys, "complete", "record")
    timed(Reservations, "book", "book")
    timed(Admission, "left", "quotas_left")
    timed(handlers, "json_response", "encoding")
    submits = functools.partial(_ends_with, "/jobs/submit")
    counted(Connection, "_handle_request", path, "gateway", is_submit=submits)


def time_proxy(path: str) -> None:
    """The parts of a submit in the proxy."""
    from clusterra_proxy.requests import handlers, submit
    from clusterra_proxy.slurmrestd.slurmctld import Slurmctld

    timed(submit, "translate_all", "translation")
    timed(submit, "describe_jobs", "description")
    timed(Slurmctld, "submit", "slurmrestd")
    counted(handlers, "submit", path, "proxy")


def _ends_with(end: str, _connection: object, request: Any, *_rest: object) -> bool:
    return str(request.path).endswith(end)


_MODULES: dict[str, Callable[[str], None]] = {"clusterra_gateway": time_gateway, "clusterra_proxy": time_proxy}
if "BENCH_SUBMIT_PARTS" in os.environ:
    for _module in _MODULES.keys() & set(sys.orig_argv):
        _MODULES[_module](os.environ["BENCH_SUBMIT_PARTS"])

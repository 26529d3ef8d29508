"""A service that test_tracing.py runs as a process: it makes a trace of two spans, then works until it is stopped."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_runtime import tracing
from clusterra_runtime.service import Service, run
from clusterra_runtime.settings import ServiceSettings
from prometheus_client import REGISTRY


async def work() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    with tracing.entry(None, "outer"), tracing.span("inner", attributes={"number": 7}):
        service.log.info("in_the_trace")
    with tracing.span("outside a trace"):
        pass
    service.background("work", work)
    service.log.info("loaded", sdk=[name for name in ("opentelemetry.sdk", "requests") if name in sys.modules])
    yield
    service.log.info("closed", failed=REGISTRY.get_sample_value("clusterra_spans_total", {"outcome": "failed"}))


run("traced", ServiceSettings(), app)

"""A minimal service that test_service.py runs as a process: `tiny_service.py works|dies`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_runtime.service import Service, run
from clusterra_runtime.settings import ServiceSettings


async def work() -> None:
    if sys.argv[1] == "dies":
        raise RuntimeError("the work cannot go on")
    await asyncio.Event().wait()


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    service.background("work", work)
    yield
    service.log.info("closed", password="xyzzy", address="nats://user:xyzzy@host:4222")


run("tiny", ServiceSettings(), app)

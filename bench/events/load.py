"""A process of the load: it says when it is ready, and then what it was told.

It reads two lines of JSON from its standard input: what to do and, once everything is over, when each event was
published. It prints a line after each. All times are those of the machine's monotonic clock.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil
from latency import percentile
from pydantic import BaseModel

READY = "ready"
READY_SECONDS = 120.0
LINE_BYTES = 64 * 1024 * 1024


class Published(BaseModel):
    """When each event was published, by its number. The last one was told to all who were told anything by then."""

    at: tuple[float, ...]


class Told(BaseModel):
    """What a process was told."""

    expected: int
    """How many events together its receivers should have been told."""
    told: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    last_ms: float = 0.0
    """From the last publishing to the last arrival."""
    cpu_seconds: float = 0.0
    """What the process itself took."""


def summary(latencies: Sequence[float], expected: int) -> Told:
    """What was told, of the seconds from each publishing to each arrival."""
    took = psutil.Process().cpu_times()
    told = Told(expected=expected, told=len(latencies), cpu_seconds=round(took.user + took.system, 2))
    if not latencies:
        return told
    ms = {f"p{each}_ms": round(percentile(latencies, each) * 1e3, 1) for each in (50, 99)}
    return told.model_copy(update=ms)


def serve[L: BaseModel](
    model: type[L], run: Callable[[L, Callable[[], Awaitable[Published]]], Coroutine[object, object, Told]]
) -> None:
    """The main function of such a process. `run` calls its second argument once it is ready."""

    async def published() -> Published:
        print(READY, flush=True)
        return Published.model_validate_json(await asyncio.to_thread(sys.stdin.readline))

    print(asyncio.run(run(model.model_validate_json(sys.stdin.readline()), published)).model_dump_json(), flush=True)


@dataclass(frozen=True)
class Loading:
    """A running process of the load."""

    module: str
    process: asyncio.subprocess.Process

    async def told(self, published: Published) -> Told:
        """End it, and return what it was told."""
        out, _ = await self.process.communicate(f"{published.model_dump_json()}\n".encode())
        assert self.process.returncode == 0, f"{self.module} ended with {self.process.returncode}"
        return Told.model_validate_json(out)


@asynccontextmanager
async def loading(module: str, load: BaseModel) -> AsyncIterator[Loading]:
    """Run such a process, ready, until the block ends."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=pipe, stdout=pipe, limit=LINE_BYTES
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{load.model_dump_json()}\n".encode())
        async with asyncio.timeout(READY_SECONDS):
            assert (await process.stdout.readline()).decode().strip() == READY, f"{module} is not ready"
        yield Loading(module, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

"""Parses the bodies of slurmrestd's answers into models, never for long on the event loop.

A large list is parsed in a subprocess: parsing holds the interpreter lock, even in a thread, so 20 MB (3,000 jobs)
would block all other requests for half a second. A subprocess also returns its memory to the system when it ends. What
it writes, and a list of which most records are known, is read in a thread record by record, so that the lock is free
again after milliseconds.
"""

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from typing import Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from clusterra_proxy.slurmrestd import body_reader
from clusterra_proxy.slurmrestd.answers import Answer, ErrorEntry
from clusterra_proxy.slurmrestd.errors import BadAnswer
from clusterra_proxy.slurmrestd.known_records import KnownRecords
from clusterra_proxy.slurmrestd.reading.json_content import content_of

SUBPROCESS_BYTES = 2 * 1024 * 1024
"""Bodies of at least this size are parsed in a subprocess, and smaller ones that have many values."""
WRITTEN_BYTES = 192 * 1024 * 1024
"""Maximum size of what a subprocess writes. It is some 700 bytes for a job: 110 MB for 160,000."""
_PIPE_BYTES = 256 * 1024
SUBPROCESSES = 4
"""Maximum number of subprocesses at a time. Each takes some 25 MiB and a CPU; more answers wait for one to end."""
PER_TENANT = 2
"""How many of them may be for the Slurms of one tenant: one that sends slowly keeps its own for minutes."""


class _Slots:
    """The subprocesses that may run, in all and for each tenant."""

    def __init__(self) -> None:
        self.all = asyncio.Semaphore(SUBPROCESSES)
        self._of_tenants = WeakValueDictionary[str, asyncio.Semaphore]()

    def of(self, tenant: str) -> asyncio.Semaphore:
        """Those of a tenant. Hold it as long as it is waited for or used."""
        return self._of_tenants.setdefault(tenant, asyncio.Semaphore(PER_TENANT))


_slots = WeakKeyDictionary[asyncio.AbstractEventLoop, _Slots]()
_PLAIN_ERRORS = frozenset(
    {
        b"Authentication failure",
        b"Authentication does not apply to request",
        b"Invalid job id specified",
        b"Invalid node name specified",
        b"Unable to find requested URL",
        b"Unspecified error",
    }
)
"""slurmrestd's errors in plain text. Users see no other text: it may be that of another service at this address."""
THREAD_BYTES = 128 * 1024
"""Bodies of at least this size are compared with known records, or packed, in a thread."""


async def parse[A: Answer](
    model: type[A],
    body: bytes,
    status: int,
    *,
    entity: str,
    known: KnownRecords[A] | None = None,
    tenant: str = "",
) -> A:
    """Parse a body as `model`. A plain text of slurmrestd in a failed answer becomes the answer's error.

    Raises BadAnswer when the body of a successful answer cannot be parsed. `entity` names what was requested. With
    `known` only the records that have changed are parsed. `tenant`: whose Slurm it is from.
    """
    try:
        if status == 200 and known is not None and (answer := await _compare(model, body, known)) is not None:
            return answer
        long = len(body) >= SUBPROCESS_BYTES or body_reader.takes_long(body)
        # A thread would not help: the parser keeps the interpreter lock.
        content = None if long else content_of(body)
        if long or body_reader.is_long(content):
            async with BodyParser(model, tenant=tenant) as parser:
                await parser.feed(body)
                return await parser.finish()
        if model.THREAD and len(body) >= THREAD_BYTES:
            return await asyncio.to_thread(body_reader.read_content, model, content)
        return body_reader.read_content(model, content)
    except ValueError as error:
        if status == 200:
            raise _does_not_match(entity) from error
        text = body.strip()
        return model(errors=(ErrorEntry(description=text.decode() if text in _PLAIN_ERRORS else ""),))


def _does_not_match(entity: str) -> BadAnswer:
    return BadAnswer(
        f"slurmrestd's answer about this {entity} does not match its API version",
        hint="check that the cluster's slurmrestd URL leads to a slurmrestd of a supported version",
    )


async def _compare[A: Answer](model: type[A], body: bytes, known: KnownRecords[A]) -> A | None:
    if len(body) < THREAD_BYTES:
        return known.read(model, body)
    return await asyncio.to_thread(known.read, model, body)


class BodyParser[A: Answer]:
    """Parses a large body of a successful answer in a subprocess as it arrives, so that no process ever holds it.

    Feed all of it, then call `finish`. The subprocess ends with the `async with` block at the latest. `known` has what
    the subprocess made of the records of the last answer: an unchanged record stays the same object.
    """

    def __init__(self, model: type[A], known: KnownRecords[A] | None = None, *, tenant: str = "") -> None:
        self._model = model
        self._tenant = tenant
        self._known = KnownRecords[A]() if known is None else known
        self._process: asyncio.subprocess.Process | None = None
        self._written: asyncio.Task[bytes] | None = None
        self._slot = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        try:
            if self._written is not None:
                self._written.cancel()
                await asyncio.gather(self._written, return_exceptions=True)
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
        finally:
            await self._slot.aclose()

    async def feed(self, chunk: bytes) -> None:
        """Pass on the next bytes. Waits until the subprocess has taken most of those before.

        The first call waits until fewer than SUBPROCESSES run, and fewer than PER_TENANT of the tenant's. Raises
        BadAnswer when the subprocess writes too much.
        """
        if self._process is None:
            slots = _slots.setdefault(asyncio.get_running_loop(), _Slots())
            await self._slot.enter_async_context(slots.of(self._tenant))
            await self._slot.enter_async_context(slots.all)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                body_reader.__name__,
                self._model.__module__,
                self._model.__name__,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            # It writes while it reads.
            self._written = asyncio.create_task(_read_written(self._process))
        if self._written is not None and self._written.done():
            self._written.result()
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        # If the subprocess has died, `finish` says so.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(chunk)
            await self._process.stdin.drain()

    async def finish(self) -> A:
        """Return the answer. Raises ValueError for a body that cannot be parsed, BadAnswer for a too large one."""
        if self._process is None or self._written is None:
            raise ValueError("the body is empty")
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.close()
        written = await self._written
        if await self._process.wait() != 0:
            raise ValueError("the subprocess could not parse the body")
        return await asyncio.to_thread(lambda: self._known.read_lines(self._model, written.split(b"\n")))

    async def finish_or_explain(self, entity: str) -> A:
        """Return the answer. Raises BadAnswer as `parse` does."""
        try:
            return await self.finish()
        except ValueError as error:
            raise _does_not_match(entity) from error


async def _read_written(process: asyncio.subprocess.Process) -> bytes:
    """Return all that a subprocess writes. Ends it and raises BadAnswer when that is more than WRITTEN_BYTES."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    pieces: list[bytes] = []
    size = 0
    while piece := await process.stdout.read(_PIPE_BYTES):
        size += len(piece)
        if size > WRITTEN_BYTES:
            # It would wait for a reader for ever, and whoever feeds it for the subprocess.
            with suppress(ProcessLookupError):
                process.kill()
            raise BadAnswer(
                f"slurmrestd's answer is too large: its records have more than {WRITTEN_BYTES} bytes",
                hint="check that the cluster's slurmrestd URL leads to a slurmrestd",
            )
        pieces.append(piece)
    return b"".join(pieces)

"""Parses the bodies of slurmrestd's answers into models, never for long on the event loop.

A large list is parsed in a subprocess: parsing holds the interpreter lock, even in a thread, so 20 MB (3,000 jobs)
would block all other requests for half a second. A subprocess also returns its memory to the system when it ends. What
it writes, and a list of which most records are known, is read in a thread record by record, so that the lock is free
again after milliseconds.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

from clusterra_proxy.slurmrestd import body_reader
from clusterra_proxy.slurmrestd.answers import Answer, ErrorEntry
from clusterra_proxy.slurmrestd.errors import Unavailable
from clusterra_proxy.slurmrestd.known_records import KnownRecords

SUBPROCESS_BYTES = 2 * 1024 * 1024
"""Bodies of at least this size are parsed in a subprocess."""
THREAD_BYTES = 128 * 1024
"""Bodies of at least this size are compared with known records in a thread."""


async def parse[A: Answer](
    model: type[A], body: bytes, status: int, *, entity: str, known: KnownRecords[A] | None = None
) -> A:
    """Parse a body as `model`. A plain-text body of a failed request becomes the answer's error.

    Raises Unavailable when the body of a successful answer cannot be parsed. `entity` names what was requested. With
    `known` only the records that have changed are parsed.
    """
    try:
        if status == 200 and known is not None and (answer := await _compare(model, body, known)) is not None:
            return answer
        if len(body) >= SUBPROCESS_BYTES:
            return await _parse_in_subprocess(model, _whole(body))
        return body_reader.read(model, body)
    except ValueError as error:
        if status == 200:
            raise _does_not_match(entity) from error
        text = body.decode(errors="replace").strip()
        return model(errors=(ErrorEntry(description=text[:200]),))


def _does_not_match(entity: str) -> Unavailable:
    return Unavailable(
        f"slurmrestd's answer about this {entity} does not match its API version",
        hint="check that the cluster's slurmrestd URL leads to a slurmrestd of a supported version",
    )


async def _compare[A: Answer](model: type[A], body: bytes, known: KnownRecords[A]) -> A | None:
    if len(body) < THREAD_BYTES:
        return known.read(model, body)
    return await asyncio.to_thread(known.read, model, body)


async def parse_stream[A: Answer](model: type[A], body: AsyncIterator[bytes], *, entity: str) -> A:
    """Parse the large body of a successful answer as it arrives, so that this process never holds it.

    Raises as `parse` does, and what the iterator raises.
    """
    try:
        return await _parse_in_subprocess(model, body)
    except ValueError as error:
        raise _does_not_match(entity) from error


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _parse_in_subprocess[A: Answer](model: type[A], body: AsyncIterator[bytes]) -> A:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        body_reader.__name__,
        model.__module__,
        model.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        # It writes nothing before it has read everything, so its output cannot block it.
        with suppress(BrokenPipeError, ConnectionResetError):
            async for chunk in body:
                process.stdin.write(chunk)
                await process.stdin.drain()
        written, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ValueError("the subprocess could not parse the body")
    return await asyncio.to_thread(lambda: KnownRecords[A]().read_lines(model, written.split(b"\n")))

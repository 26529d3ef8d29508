"""Parses the bodies of slurmrestd's answers into models, a large body in a subprocess.

Parsing holds the interpreter lock, even in a thread: 20 MB (3,000 jobs) would block all other requests for half a
second. A subprocess also returns its memory to the system when it ends.
"""

import asyncio
import sys

from clusterra_proxy.slurmrestd import body_reader
from clusterra_proxy.slurmrestd.answers import Answer, ErrorEntry
from clusterra_proxy.slurmrestd.errors import Unavailable

SUBPROCESS_BYTES = 2 * 1024 * 1024
"""Bodies of at least this size are parsed in a subprocess."""


async def parse[A: Answer](model: type[A], body: bytes, status: int, *, entity: str) -> A:
    """Parse a body as `model`. A plain-text body of a failed request becomes the answer's error.

    Raises Unavailable when the body of a successful answer cannot be parsed. `entity` names what was requested.
    """
    try:
        if len(body) >= SUBPROCESS_BYTES:
            return await _parse_in_subprocess(model, body)
        return body_reader.read(model, body)
    except ValueError as error:
        if status == 200:
            raise Unavailable(
                f"slurmrestd's answer about this {entity} does not match its API version",
                hint="check that the cluster's slurmrestd URL leads to a slurmrestd of a supported version",
            ) from error
        text = body.decode(errors="replace").strip()
        return model(errors=(ErrorEntry(description=text[:200]),))


async def _parse_in_subprocess[A: Answer](model: type[A], body: bytes) -> A:
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
        shorter, _ = await process.communicate(body)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ValueError("the subprocess could not parse the body")
    return model.model_validate_json(shorter)

"""Bodies of slurmrestd's answers, read as models. A large one is read in a process of its own.

Reading holds the interpreter lock, in a thread as well: 20 MB (3,000 jobs) would stop every other request for half
a second. A process that ends also gives back what the list took.
"""

import asyncio
import sys

from clusterra_proxy.slurmrestd import body_reader as reader
from clusterra_proxy.slurmrestd.answers import Answer, ErrorEntry
from clusterra_proxy.slurmrestd.body_reader import read
from clusterra_proxy.slurmrestd.errors import Unavailable

SUBPROCESS_BYTES = 2 * 1024 * 1024


async def parse[A: Answer](model: type[A], body: bytes, status: int, *, entity: str) -> A:
    """Read a body as `model`; where it is no such thing but an error in plain text, the text is its error.

    Raises Unavailable when a successful answer cannot be read.
    """
    try:
        return await _parse_in_subprocess(model, body) if len(body) >= SUBPROCESS_BYTES else read(model, body)
    except ValueError as error:
        if status == 200:
            raise Unavailable(
                f"slurmrestd's answer about this {entity} is not what its version promises",
                hint="is it a slurmrestd, and of a version that the proxy speaks?",
            ) from error
        text = body.decode(errors="replace").strip()
        return model(errors=(ErrorEntry(description=text[:200]),))


async def _parse_in_subprocess[A: Answer](model: type[A], body: bytes) -> A:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        reader.__name__,
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
        raise ValueError("the body could not be read")
    return model.model_validate_json(shorter)

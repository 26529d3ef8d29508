"""Reads a file, or stdin, that a command line names."""

import sys
from pathlib import Path

from clusterra_cli.usage import WrongUsage


def read_bounded(name: str, limit: int) -> bytes:
    """The bytes of a file; `-` is stdin. Raises WrongUsage for one that cannot be read, or is longer than `limit`."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as opened:
                raw = opened.read(limit + 1)
    except OSError as error:
        raise WrongUsage(f"{name} cannot be read: {error.strerror}") from None
    if len(raw) > limit:
        raise WrongUsage(f"{name} is longer than {limit // 1024**2} MiB")
    return raw

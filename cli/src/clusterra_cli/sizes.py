"""Reads sizes of memory as sbatch does."""

import re

_SIZE = re.compile(r"([0-9]{1,15})([KMGTkmgt]?)[Bb]?")
_MIB = {"m": 1, "g": 1024, "t": 1024**2}


def read_mebibytes(text: str) -> int:
    """A size as people write it in MiB, rounded up: `4096`, `4G`, `512MB`, `100K`. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    size, unit = int(found[1]), (found[2] or "m").lower()
    return -(-size // 1024) if unit == "k" else size * _MIB[unit]

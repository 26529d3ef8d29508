"""Slurm's lists of trackable resources (TRES), such as `cpu=4,mem=4G,node=2`."""

import re

_MEMORY = re.compile(r"(?:^|,)mem=([0-9]{1,19}(?:\.[0-9]{1,19})?)([KMGTP]?)(?=,|$)")
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


def memory_mib(tres: str) -> int | None:
    """Return the memory in a TRES list, or None, as on a Slurm that does not allocate memory."""
    found = _MEMORY.search(tres)
    return round(float(found[1]) * _MIB[found[2]]) if found else None

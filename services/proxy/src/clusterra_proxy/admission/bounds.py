"""Bounds of a job description that Slurm or slurmrestd could not take, or only at the cost of everybody else."""

import re
from typing import Any

from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription

from clusterra_proxy.slurmrestd.errors import Invalid

MAX_NUMBER = 2**32 - 3
"""The largest number of Slurm: the two above it mean "infinite" and "not set"."""
MAX_ITEMS = 1000
"""Maximum number of items of a list. slurmrestd's time grows with their square: 120,000 variables take 30 s of CPU."""
MAX_LIST_BYTES = 256 * 1024
"""Maximum size of a list, such as of all environment variables, in bytes."""

_AT_LEAST_ONE = frozenset({"tasks", "tasks_per_node", "cpus_per_task"})
"""Numbers that sbatch refuses when they are 0."""
_NUMBER = re.compile(r"[1-9]\d*")
_NUMERIC = frozenset({"nodes"})
"""Texts that hold only numbers."""


def check_bounds(job: JobDescription | FurtherFields) -> None:
    """Raise Invalid, naming the field, for a number or a list out of bounds, and for a text with a NUL."""
    for name, value in job:
        _check(name, value)


def _check(name: str, value: Any) -> None:
    if (isinstance(value, int) and abs(value) > MAX_NUMBER) or (
        name in _NUMERIC
        and isinstance(value, str)
        and any(len(each) > 10 or int(each) > MAX_NUMBER for each in _NUMBER.findall(value))
    ):
        raise Invalid(f"{name}: the number is too large", hint=f"the largest number of Slurm is {MAX_NUMBER}")
    if name in _AT_LEAST_ONE and value == 0:
        raise Invalid(f"{name}: it must be at least 1", hint="leave it out where Slurm is to choose")
    if any(isinstance(text, str) and "\0" in text for text in (value if isinstance(value, tuple) else (value,))):
        raise Invalid(f"{name}: it has a NUL character", hint="leave it out: Slurm would cut the text there")
    if isinstance(value, tuple):
        _check_list(name, value)


def _check_list(name: str, items: tuple[str, ...]) -> None:
    if len(items) > MAX_ITEMS:
        raise Invalid(
            f"{name}: it has {len(items)} items, more than {MAX_ITEMS}",
            hint="set fewer, or read them from a file in the script",
        )
    size = sum(len(item.encode(errors="surrogatepass")) for item in items)
    if size > MAX_LIST_BYTES:
        raise Invalid(
            f"{name}: it has {size} bytes, more than {MAX_LIST_BYTES}",
            hint="set fewer, or read them from a file in the script",
        )

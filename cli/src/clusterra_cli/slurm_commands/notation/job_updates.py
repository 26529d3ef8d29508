"""`scontrol update`: reads `JobId=42 TimeLimit=1:00:00` as the fields that the gateway changes."""

from collections.abc import Callable, Mapping, Sequence

from clusterra_cli.getopt import split
from clusterra_cli.sizes import read_mebibytes
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.notation.times import MINUTE, duration, read_moment


class _BadValue(Exception):
    """A value that its field cannot have."""


def changes(words: Sequence[str]) -> tuple[tuple[str, ...], Mapping[str, object]]:
    """The ids of the jobs, and the fields to change. Raises CommandFailed as scontrol complains."""
    ids: tuple[str, ...] = ()
    fields: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.rstrip("+-").lower() if equals else name.lower()
        if name in ("jobid", "job") and equals:
            ids = split(value)
            continue
        found = next((each for each in _FIELDS if name and each.startswith(name)), None)
        if found is None or not equals or word.partition("=")[0][-1:] in ("+", "-"):
            raise CommandFailed(f"Update of this parameter is not supported: {word}\nRequest aborted")
        field, read = _FIELDS[found]
        try:
            fields[field] = read(value)
        except (_BadValue, ValueError):
            raise CommandFailed(f"Invalid {word.partition('=')[0]} value: {value}\nRequest aborted") from None
    if not ids:
        raise CommandFailed("No valid entity in update command\nInput line must include a JobId")
    return ids, fields


def minutes(text: str) -> int:
    """A time limit in minutes, rounded up: `90`, `90:00`, `1:30:00`, `1-12`, `0:86400`."""
    return -(-duration(text) // MINUTE)


def _moment(text: str) -> int:
    import time

    found = read_moment(text, time.time())
    if found is None:
        raise _BadValue(text)
    return found


def _yes(text: str) -> bool:
    known = {"1": True, "yes": True, "0": False, "no": False}
    if text.lower() not in known:
        raise _BadValue(text)
    return known[text.lower()]


_FIELDS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "dependency": ("dependency", str),
    "excnodelist": ("excluded_nodes", lambda text: list(split(text))),
    "features": ("constraints", str),
    "jobname": ("name", str),
    "licenses": ("licenses", str),
    "minmemorycpu": ("memory_per_cpu", read_mebibytes),
    "minmemorynode": ("memory_per_node", read_mebibytes),
    "name": ("name", str),
    "nice": ("nice", int),
    "numtasks": ("tasks", int),
    "partition": ("partition", str),
    "qos": ("qos", str),
    "requeue": ("requeue", _yes),
    "starttime": ("begin_time", _moment),
    "eligibletime": ("begin_time", _moment),
    "stderr": ("standard_error", str),
    "stdin": ("standard_input", str),
    "stdout": ("standard_output", str),
    "timelimit": ("time_limit", minutes),
    "timemin": ("time_minimum", minutes),
    "wckey": ("wckey", str),
}
"""What scontrol calls a field, in lower case, and what the gateway calls it. A name may be shortened."""

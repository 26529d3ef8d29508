"""The paths of a job's files as its worker writes them, where slurmctld tells other ones.

slurmctld expands `%u` to the uid, because there is no account with a name. slurmd expands it to the name in the job's
credential. So the name takes its place in what is submitted here, and afterwards in what plain sbatch has submitted.
"""

import re
from collections.abc import Mapping

from clusterra_proxy.slurmrestd.records import JobRecord

PATH_MAX = 4096
"""Maximum length of a path that is corrected, in characters. Linux opens no longer one."""
_PATTERN = re.compile(r"%(?:%|(\d{0,2})([A-Za-z]))")
_NUMBERS = frozenset("AaJjbrnt")
"""The patterns that Slurm pads with zeros to a width, such as `%5j`."""
_WILDCARDS = frozenset("AaJjbrntNsSux")
"""The patterns of Slurm. Other letters behind a `%` stay as they are."""
_ANY_PATTERN = re.compile(r"%[0-9]*(.)", re.DOTALL)
_NO_TASK = 2**32 - 2
"""What Slurm writes for the number of the task where a job is no array."""


def with_user_name(pattern: str, user: str) -> str:
    """Return a path with the user's name in place of `%u`. A backslash makes Slurm expand nothing."""
    if "\\" in pattern:
        return pattern
    return _ANY_PATTERN.sub(lambda place: user if place[1] == "u" else place[0], pattern)


def known_values(record: JobRecord) -> dict[str, str]:
    """Return what slurmctld expands patterns to, by their letters, as far as the record tells it."""
    task = _NO_TASK if record.array_task_id is None else record.array_task_id
    values = {
        "j": str(record.job_id),
        "J": str(record.job_id),
        "A": str(record.array or record.job_id),
        "a": str(task),
        "b": str(task % 10),
        "x": record.name,
        "r": str(record.restart_cnt),
        "s": "batch",
        "n": "0",
        "t": "0",
    }
    for host in record.hosts[:1]:
        values["N"] = host
    if record.user_id is not None:
        values["u"] = str(record.user_id)
    return values


def written_path(pattern: str, told: str, values: Mapping[str, str], user: str) -> str:
    """The output path that slurmctld tells, with the user's name for `%u`.

    `pattern` is the path before the expansion, and `values` has `known_values`. The path stays as told unless they
    explain all of it. Takes linear time: any user chooses the pattern.
    """
    if "%" not in pattern or "u" not in values or not user:
        return told
    if "\\" in pattern or max(len(pattern), len(told)) > PATH_MAX:
        return told
    expected, written = _expand(pattern, values), _expand(pattern, {**values, "u": user})
    if expected is None or written is None or expected == written:
        return told
    folder = told.removesuffix(expected)
    # A relative path is told with the working directory before it.
    if folder == told or (folder and (pattern.startswith("/") or not folder.endswith("/"))):
        return told
    return folder + written


def _expand(pattern: str, values: Mapping[str, str]) -> str | None:
    """Expand the patterns; None for one without a value, and for a result of more than PATH_MAX characters."""
    parts, length, end = [], 0, 0
    for place in _PATTERN.finditer(pattern):
        width, kind = place[1], place[2]
        if kind in _WILDCARDS:
            if kind not in values:
                return None
            value = values[kind].zfill(min(int(width or 0), 10)) if kind in _NUMBERS else values[kind]
        else:
            value = place[0] if kind else "%"
        parts += [pattern[end : place.start()], value]
        length += len(parts[-2]) + len(value)
        if length > PATH_MAX:
            return None
        end = place.end()
    return "".join((*parts, pattern[end:]))

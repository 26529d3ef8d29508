"""The path of a job's output as its worker writes it, where slurmctld tells another one."""

import re
from collections.abc import Mapping

from clusterra_proxy.slurmrestd.records import JobRecord

PATH_MAX = 4096
"""Maximum length of a path that is corrected, in characters. Linux opens no longer one."""
_PATTERN = re.compile(r"%(?:%|(\d{0,2})([A-Za-z]))")
_NUMBERS = frozenset("Aaj")
"""The patterns that slurm pads with zeros to a width, such as `%5j`."""


def known_values(record: JobRecord) -> dict[str, str]:
    """Return what slurmctld expands patterns to, by their letters, as far as the record tells it."""
    values = {"j": str(record.job_id), "A": str(record.array or record.job_id), "x": record.name}
    if record.array_task_id is not None:
        values["a"] = str(record.array_task_id)
    if record.user_id is not None:
        values["u"] = str(record.user_id)
    return values


def written_path(pattern: str, told: str, values: Mapping[str, str], user: str) -> str:
    """The output path that slurmctld tells, with the user's name for `%u`.

    slurmctld expands `%u` to the uid, because there is no account with a name. slurmd expands it to the name in the
    job's credential. `pattern` is the path before the expansion, and `values` has `known_values`. The path stays as
    told unless they explain all of it. Takes linear time: any user chooses the pattern.
    """
    if "%u" not in pattern or "u" not in values or not user:
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
        if kind and (kind not in values or (width and kind not in _NUMBERS)):
            return None
        value = values[kind].zfill(int(width or 0)) if kind else "%"
        parts += [pattern[end : place.start()], value]
        length += len(parts[-2]) + len(value)
        if length > PATH_MAX:
            return None
        end = place.end()
    return "".join((*parts, pattern[end:]))

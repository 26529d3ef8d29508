"""The path of a job's output as its worker writes it, where slurmctld tells another one."""

import re

_PATTERN = re.compile(r"%%|%\d*([A-Za-z])")
_SPAN = 20
"""Maximum number of patterns in a path that is corrected. Matching more could take long."""


def written_path(pattern: str, told: str, uid: int | None, user: str) -> str:
    """The output path that slurmctld tells, with the user's name for `%u`.

    slurmctld expands `%u` to the uid, because there is no account with a name. slurmd expands it to the name in the
    job's credential. `pattern` is the path before the expansion.
    """
    found = list(_PATTERN.finditer(pattern))
    if uid is None or not user or "%u" not in re.sub(r"%\d+", "%", pattern) or len(found) > _SPAN:
        return told
    expression, end = "", 0
    for place in found:
        kind = place[1]
        value = f"(?P<uid{place.start()}>{uid})" if kind == "u" else ".*?" if kind else "%%?"
        expression += re.escape(pattern[end : place.start()]) + value
        end = place.end()
    matched = re.fullmatch(".*?" + expression + re.escape(pattern[end:]), told, re.DOTALL)
    if matched is None:
        return told
    for group in sorted(matched.re.groupindex, key=matched.start, reverse=True):
        told = told[: matched.start(group)] + user + told[matched.end(group) :]
    return told

"""`sacct`: the jobs of accounting, also those that it does not have yet."""

import os
import re
import sys
import time
from collections.abc import Sequence

from clusterra_cli.getopt import Words, options, split
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.fields.sacct_fields import VALUES, Row
from clusterra_cli.slurm_commands.fields.sacct_names import BRIEF, DEFAULT, NAMES, WIDTHS
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.notation.sized_tables import FIELD, SizedColumn, parsable_lines, sized_lines
from clusterra_cli.slurm_commands.notation.times import read_moment
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.reads.accounting import read_jobs
from clusterra_cli.slurm_commands.reads.queue import JOB_ID, Queue, task_numbers
from clusterra_cli.slurm_commands.records import Record, count, number, objects, part, text
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read
from clusterra_cli.slurm_commands.terminal.local_user_names import with_own_name
from clusterra_cli.slurm_commands.terminal.printing import write_line

OPTIONS = options(
    "sacct",
    none="allusers:a brief:b duplicates:D helpformat:e help:h allclusters:L long:l noheader:n parsable:p parsable2:P"
    " truncate:T usage:U verbose:v version:V allocations:X array local noconvert batch-script env-vars completion:c"
    " expand-patterns",
    required="accounts:A delimiter endtime:E flags:F format:o gid:g group jobs:j name ncpus:I nnodes:i nodelist:N"
    " partition:r qos:q reason:R starttime:S state:s timelimit-max:K timelimit-min:k uid:u user wckeys:W clusters:M"
    " cluster units whole-hetjob",
    optional="json yaml",
    same={"user": "uid", "cluster": "clusters", "group": "gid"},
    unsupported="long batch-script env-vars completion yaml flags gid nodelist reason wckeys ncpus nnodes"
    " timelimit-min timelimit-max units truncate whole-hetjob noconvert array expand-patterns",
)
_ID = re.compile(rf"({JOB_ID.pattern})(?:\.([a-z0-9]+))?")


def main(arguments: Sequence[str]) -> int:
    """Print the jobs. Raises CommandFailed."""
    words = _read(arguments)
    if asked_about(OPTIONS, words):
        return 0
    if words.has("helpformat"):
        sys.stdout.write(_all_names())
        return 0
    columns = _columns(words)
    ids = _ids(words)
    window = _window(words, ids)
    wanted_states = _states(words)
    queue = Queue(gateway := Gateway())
    chosen_clusters("sacct", words, gateway)
    try:
        found = read_jobs(gateway, queue, ids, window, duplicates=words.has("duplicates"))
        jobs = [_with_uid(each, queue) for each in found if _kept(each, words, queue)]
    except Refused as error:
        raise CommandFailed(f"sacct: error: {error}") from None
    rows = [row for job in jobs for row in _rows(job, alone=words.has("allocations"))]
    shown = [
        row
        for row in rows
        if (not ids or any(_selects(each, row) for each in ids)) and (not wanted_states or row.state in wanted_states)
    ]
    if words.has("json"):
        import json

        kept = {id(row.job) for row in shown}
        write_line(json.dumps({"jobs": [each for each in jobs if id(each) in kept], "errors": [], "warnings": []}))
        return 0
    _print(words, columns, shown)
    return 0


def _read(arguments: Sequence[str]) -> Words:
    try:
        words = read(OPTIONS, arguments)
    except CommandFailed as failed:
        raise CommandFailed(str(failed).partition("\n")[0]) from None
    if words.others:
        strays = "".join(f"\nsacct: error:  {each}" for each in words.others)
        raise CommandFailed(f"sacct: error: Unknown arguments:{strays}")
    return words


def _all_names() -> str:
    lines = (NAMES[place : place + 4] for place in range(0, len(NAMES), 4))
    return "".join(" ".join(f"{name:<19}" for name in line) + "\n" for line in lines)


def _columns(words: Words) -> list[SizedColumn]:
    """The fields of --format, of which all options count, and whose names may be shortened."""
    given = [item for each in words.options if each.name == "format" for item in split(each.value or "")]
    if not given:
        given = list(split(BRIEF if words.has("brief") else os.environ.get("SACCT_FORMAT", DEFAULT)))
    columns: list[SizedColumn] = []
    for item in given:
        found = FIELD.fullmatch(item)
        if found is not None and found[1].lower() == "all":
            columns += [SizedColumn(name, WIDTHS[name]) for name in NAMES]
            continue
        name = next((each for each in NAMES if found is not None and each.lower().startswith(found[1].lower())), None)
        name = next((each for each in NAMES if found is not None and each.lower() == found[1].lower()), name)
        if found is None or name is None:
            raise CommandFailed(f'sacct: error: Invalid field requested: "{item.partition("%")[0]}"')
        columns.append(SizedColumn(name, int(found[2]) if found[2] else WIDTHS[name]))
    return columns


def _ids(words: Words) -> tuple[str, ...]:
    ids = words.items("jobs")
    for each in ids:
        if _ID.fullmatch(each) is None:
            raise CommandFailed(f"sacct: fatal: Bad job/step specified: {each}")
    return ids


def _window(words: Words, ids: Sequence[str]) -> tuple[int, int | None]:
    """The seconds between which jobs count: from midnight on, and for named jobs from the start."""
    now = time.time()
    midnight = read_moment("midnight", now)
    start = _moment(words, "starttime", now)
    if start is None:
        start = 0 if ids or (words.has("state") and words.has("endtime")) else midnight or 0
    end = _moment(words, "endtime", now)
    return max(0, start), None if end is None or end >= int(now) else end


def _moment(words: Words, option: str, now: float) -> int | None:
    given = words.last(option)
    if given is None:
        return None
    found = read_moment(given, now)
    if found is None:
        raise CommandFailed(f"sacct: error: Invalid time specification (pos=0): {given}")
    return found


def _states(words: Words) -> frozenset[str]:
    found = []
    for each in words.items("state"):
        name = states.named(each)
        if name is None:
            raise CommandFailed(f"sacct: error: Invalid job state specified: {each}")
        found.append(name)
    return frozenset(found)


def _kept(job: Record, words: Words, queue: Queue) -> bool:
    """Whether the filters keep a job. Without one of users, the caller's own count."""
    users = words.items("uid")
    if users:
        uid, name = queue.me
        users = with_own_name(users, name)
        mine = {name} if str(uid) in users else set()
        if text(job, "user") not in {*users, *mine}:
            return False
    elif not words.has("allusers") and not words.has("jobs") and text(job, "user") != queue.me[1]:
        return False
    for option, field in (("name", "name"), ("accounts", "account"), ("partition", "partition"), ("qos", "qos")):
        wanted = words.items(option)
        if wanted and text(job, field) not in wanted:
            return False
    return True


def _with_uid(job: Record, queue: Queue) -> Record:
    """The job with the uid of its user, which accounting does not have over HTTP, if it is the caller's."""
    uid, name = queue.me
    return {"user_id": uid, **job} if text(job, "user") == name else job


def _rows(job: Record, *, alone: bool) -> list[Row]:
    return [Row(job, alone=alone), *(() if alone else (Row(job, step) for step in objects(job, "steps")))]


def _selects(job_id: str, row: Row) -> bool:
    """Whether an id names a row: `12` the job, its tasks and steps, `12_3` a task, `12.batch` a step."""
    found = _ID.fullmatch(job_id)
    if found is None:
        return False
    _, whole, task, tasks, step = found.groups()
    array = part(row.job, "array")
    if int(whole) not in (count(row.job, "job_id"), count(array, "job_id"), count(part(row.job, "het"), "job_id")):
        return False
    if step is not None and row.ending != f".{step}":
        return False
    if task is None and tasks is None:
        return True
    wanted = {int(task)} if task else set(task_numbers(tasks))
    own = number(array, "task_id")
    return own in wanted if own is not None else bool(wanted & set(task_numbers(text(array, "task"))))


def _print(words: Words, columns: Sequence[SizedColumn], rows: Sequence[Row]) -> None:
    header = not words.has("noheader")
    values = [[VALUES[each.name](row) if each.name in VALUES else "" for each in columns] for row in rows]
    if words.has("parsable", "parsable2"):
        mark = words.last("delimiter") or "|"
        ending = mark if words.has("parsable") and not words.has("parsable2") else ""
        lines = parsable_lines(columns, values, header=header, mark=mark, ending=ending)
    else:
        lines = sized_lines(columns, values, header=header)
    sys.stdout.write("".join(f"{line}\n" for line in lines))

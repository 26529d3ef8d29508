"""`squeue`: the jobs of the queue."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from clusterra_cli.getopt import Words, options, split
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.fields.squeue_fields import HELP, LETTERS, LONG, NORMAL, START
from clusterra_cli.slurm_commands.fields.squeue_names import HELP as HELP_NAMES
from clusterra_cli.slurm_commands.fields.squeue_names import NAMES
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.notation.columns import Column, NoField, by_letters, by_names, in_columns, lines
from clusterra_cli.slurm_commands.notation.hostlists import BadHostlist, expanded, ranges
from clusterra_cli.slurm_commands.notation.times import duration
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.reads.queue import JOB_ID, Queue, by_tasks, task_numbers
from clusterra_cli.slurm_commands.records import count, objects, text
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read
from clusterra_cli.slurm_commands.terminal.local_user_names import with_own_name
from clusterra_cli.slurm_commands.terminal.printing import complain, write_line

OPTIONS = options(
    "squeue",
    none="all:a array:r hide help helpformat helpFormat helpstate local long:l me noheader:h notme"
    " only-job-state priority:P sibling start usage verbose:v version:V federation expand-patterns",
    required="account:A clusters:M format:o Format:O iterate:i licenses:L name:n nodelist:w nodefile partition:p qos:q"
    " reservation:R running-over running-under sort:S states:t user:u",
    optional="jobs:j steps:s json yaml",
    unsupported="steps iterate yaml nodefile federation expand-patterns priority",
)
_TEXTS = {"account": "account", "name": "name", "partition": "partition", "qos": "qos", "reservation": "resv_name"}
"""Options that keep the jobs with one of their values in this field."""


def main(arguments: Sequence[str]) -> int:
    """Print the jobs of the queue. Raises CommandFailed."""
    words = _read(arguments)
    if asked_about(OPTIONS, words):
        return 0
    if (printed := _help(words)) is not None:
        sys.stdout.write(printed)
        return 0
    wanted_states = _states(words)
    ids = _ids(words)
    columns = _columns(words)
    queue = Queue(gateway := Gateway())
    named = chosen_clusters("squeue", words, gateway)
    try:
        jobs = queue.one(ids[0]) if len(ids) == 1 else queue.some(ids) if ids else queue.all()
        keep = _filters(words, queue, jobs) + _nodes(words, gateway)
    except Refused as error:
        raise CommandFailed(f"slurm_load_jobs error: {error}") from None
    each_task = words.has("array") or "SQUEUE_ARRAY" in os.environ
    shown = [job for job in jobs if _in_states(job, wanted_states) and all(test(job) for test in keep)]
    if words.has("json"):
        import json

        write_line(json.dumps({"jobs": [job.record for job in shown], "errors": [], "warnings": []}))
        return 0
    if words.has("only-job-state"):
        shown = [_with_tasks_alone(job) for job in shown]
    newest_first = sorted(shown, key=lambda job: job.id, reverse=True)
    shown = _sorted(words, list(by_tasks(newest_first)) if each_task else newest_first)
    top = [f"CLUSTER: {each}" for each in named]
    if words.has("long") and not words.has("noheader"):
        top.append(time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(time.time())))
    sys.stdout.write("".join(f"{line}\n" for line in top + lines(columns, shown, header=not words.has("noheader"))))
    return 0


def _read(arguments: Sequence[str]) -> Words:
    """The command line. `-j 12` has its id as a word of its own, as its value is optional."""
    words = read(OPTIONS, arguments)
    ids = [each for each in words.options if each.name == "jobs"]
    bare = bool(ids) and ids[-1].value is None
    if len(words.others) > int(bare):
        raise CommandFailed(f"squeue: error: Unrecognized option: {words.others[int(bare)]}")
    return words


def _ids(words: Words) -> tuple[str, ...]:
    given = [each.value for each in words.options if each.name == "jobs"]
    if not given:
        return ()
    wanted = given[-1] or next(iter(words.others), "")
    ids = split(wanted)
    for each in ids:
        if JOB_ID.fullmatch(each) is None:
            raise CommandFailed(f"squeue: error: Invalid job id: {each}")
    return ids


def _help(words: Words) -> str | None:
    """What `--helpformat`, `--helpFormat` and `--helpstate` print; None without one of them."""
    if words.has("helpstate"):
        return "".join(f"{each}\n" for each in states.LISTED)
    if words.has("helpFormat"):
        return in_columns([f"{each:<20}" for each in HELP_NAMES], 4)
    return in_columns([f"%{each:<5}" for each in HELP], 8) if words.has("helpformat") else None


def _states(words: Words) -> frozenset[str] | None:
    """The states to show; None for all."""
    if words.has("start"):
        return frozenset({"PENDING"})
    given = words.last("states", os.environ.get("SQUEUE_STATES"))
    if not given:
        return states.IN_QUEUE
    if given.lower() == "all":
        return None
    found = []
    for each in split(given):
        name = states.named(each)
        if name is None:
            raise CommandFailed(
                f"squeue: error: Invalid job state specified: {each}\n"
                f"squeue: error: Valid job states include: {','.join(states.LISTED)}\n"
            )
        found.append(name)
    return frozenset(found)


def _in_states(job: Job, wanted: frozenset[str] | None) -> bool:
    return wanted is None or bool(wanted & {job.base, *job.states})


def _columns(words: Words) -> list[Column[Job]]:
    """The last of -o and -O counts; without them SQUEUE_FORMAT2 or SQUEUE_FORMAT."""
    given = next((each for each in reversed(words.options) if each.name in ("format", "Format")), None)
    try:
        if given is not None and given.name == "Format":
            return by_names(given.value or "", NAMES)
        if given is None and not words.has("long") and (form := os.environ.get("SQUEUE_FORMAT2")):
            return by_names(form, NAMES)
        if given is None and words.has("start"):
            return by_letters(START, LETTERS)
        usual = LONG if words.has("long") else os.environ.get("SQUEUE_FORMAT", NORMAL)
        return by_letters((given.value if given is not None else None) or usual, LETTERS)
    except NoField as error:
        raise CommandFailed(f"squeue: error: Invalid job format specification: {error}") from None


def _filters(words: Words, queue: Queue, jobs: Sequence[Job]) -> list[Callable[[Job], bool]]:
    tests: list[Callable[[Job], bool]] = []
    if words.has("me"):
        tests.append(lambda job: count(job.record, "user_id") == queue.me[0])
    elif named := words.items("user"):
        users = with_own_name(named, queue.me[1])
        if users == named:
            _complain(users, queue, jobs)
        tests.append(lambda job: job.user in users or job.count("user_id") in users)
    if words.has("notme"):
        tests.append(lambda job: count(job.record, "user_id") != queue.me[0])
    for option, field in _TEXTS.items():
        if wanted := words.items(option):
            tests.append(_having(field, wanted))
    if licenses := words.items("licenses"):
        tests.append(lambda job: any(_counted(each) in licenses for each in job.text("licenses", "").split(",")))
    for option, sign in (("running-over", 1), ("running-under", -1)):
        if (given := words.last(option)) is not None:
            tests.append(_running(option, given, sign))
    return tests


def _counted(item: str) -> str:
    """The name of a licence that is counted, such as `matlab:2`."""
    return item.partition(":")[0]


def _running(option: str, given: str, sign: int) -> Callable[[Job], bool]:
    """Whether a job runs for longer (1) or shorter (-1) than a time."""
    try:
        seconds = duration(given)
    except ValueError:
        raise CommandFailed(f"squeue: error: Invalid time specification for --{option}: {given}") from None
    return lambda job: job.base == "RUNNING" and sign * (job.elapsed_seconds - seconds) > 0


def _nodes(words: Words, gateway: Gateway) -> list[Callable[[Job], bool]]:
    """The filter of --nodelist, whose nodes must exist. Raises CommandFailed, Refused."""
    if not (given := words.items("nodelist")):
        return []
    try:
        wanted = {name for each in given for name in expanded(each)}
        known = {text(each, "name") for each in objects(gateway.slurm("slurm/nodes/"), "nodes")}
        if unknown := sorted(wanted - known):
            raise CommandFailed(f"squeue: error: Invalid node name {unknown[0]}")
        return [lambda job: bool(wanted & set(expanded(job.text("nodes", ""))))]
    except BadHostlist as error:
        raise CommandFailed(f"squeue: error: Invalid node name {error}") from None


def _complain(users: Sequence[str], queue: Queue, jobs: Sequence[Job]) -> None:
    """Say which users nobody knows, as far as the caller can know users: oneself, and those who have jobs."""
    known = {queue.me[1], *(job.user for job in jobs)}
    for each in users:
        if not each.isdecimal() and each not in known:
            complain(f"squeue: error: Invalid user: {each}\n")


def _having(field: str, wanted: Sequence[str]) -> Callable[[Job], bool]:
    return lambda job: bool(set(job.text(field, "").split(",")) & set(wanted)) or job.text(field, "") in wanted


_KEYS: dict[str, Callable[[Job], object]] = {
    "i": lambda job: (job.array_id or job.id, -1 if job.task_id is None else job.task_id),
    "A": lambda job: job.id,
    "j": lambda job: job.text("name", ""),
    "P": lambda job: job.text("partition", ""),
    "p": lambda job: count(job.record, "priority"),
    "Q": lambda job: count(job.record, "priority"),
    "V": lambda job: count(job.record, "submit_time"),
    "e": lambda job: count(job.record, "end_time"),
    "t": lambda job: states.short(job.state),
    "T": lambda job: job.state,
    "u": lambda job: job.user,
    "U": lambda job: count(job.record, "user_id"),
    "N": lambda job: job.text("nodes", ""),
    "D": lambda job: job.node_count,
    "C": lambda job: count(job.record, "cpus"),
    "M": lambda job: job.elapsed_seconds,
    "l": lambda job: job.limit_minutes if job.limit_minutes is not None else 1 << 40,
    "a": lambda job: job.text("account", ""),
    "q": lambda job: job.text("qos", ""),
}


def _with_tasks_alone(job: Job) -> Job:
    """The job as --only-job-state shows it: the numbers of the tasks, without how many may run together."""
    tasks = ",".join("-".join(map(str, each)) for each in ranges(task_numbers(job.tasks)))
    return replace(job, record={**job.record, "array_task_string": tasks}) if job.tasks else job


def _start(job: Job, *, down: bool) -> tuple[object, ...]:
    """What jobs are sorted by for their start. Jobs without one are the last in both directions."""
    start = count(job.record, "start_time")
    task = -1 if job.task_id is None else job.task_id
    return not start, -start if down else start, job.array_id or job.id, task


def _sorted(words: Words, jobs: list[Job]) -> list[Job]:
    """Sorted by some keys. Slurm's own list has the newest job first, which decides where the keys are equal."""
    given = split(words.last("sort", os.environ.get("SQUEUE_SORT", "S" if words.has("start") else "P,t,-p")) or "")
    for each in reversed(given):
        if each.lstrip("+-") == "S":
            jobs = sorted(jobs, key=partial(_start, down=each.startswith("-")))
            continue
        key = _KEYS.get(each.lstrip("+-"))
        if key is None:
            raise CommandFailed(f"squeue: error: Invalid sort specification: {each}")
        jobs = sorted(jobs, key=key, reverse=each.startswith("-"))  # type: ignore[arg-type]
    return jobs

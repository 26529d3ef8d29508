"""What the fields of sacct say of a job or a step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clusterra_cli.slurm_commands.notation import states, times
from clusterra_cli.slurm_commands.notation.sizes import exact, mebibytes
from clusterra_cli.slurm_commands.records import Record, count, exit_code, infinite, number, objects, part, text, texts

_UNKNOWN = "Unknown"
_NEVER = 4294967294
"""Slurm's number for none: the start of a job that was cancelled before it began."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a job, or one of its steps. Both are records of slurmdbd, as slurmrestd writes them."""

    job: Record
    step: Record | None = None
    alone: bool = False
    """Whether only jobs are listed: then the CPU time of steps does not count."""

    @property
    def record(self) -> Record:
        """The record of the step, or else of the job."""
        return self.job if self.step is None else self.step

    @property
    def ending(self) -> str:
        """What stands behind the job's id for a step, such as `.batch`."""
        name = text(part(self.record, "step"), "id")
        return "" if self.step is None else "." + name.partition(".")[2]

    @property
    def job_id(self) -> str:
        """The id as people write it: `12`, `12_3`, `12_[4-9%2]`."""
        array = part(self.job, "array")
        whole = count(array, "job_id")
        if whole and number(array, "task_id") is not None:
            return f"{whole}_{count(array, 'task_id')}"
        if whole and text(array, "task"):
            return f"{whole}_[{text(array, 'task')}]"
        return str(count(self.job, "job_id"))

    @property
    def state(self) -> str:
        """The state without flags: whether a job still completes does not matter here."""
        found = texts(part(self.job, "state"), "current") if self.step is None else texts(self.step, "state")
        return "REQUEUED" if "REQUEUED" in found else states.base(found)

    def tres(self, kind: str, name: str) -> int | None:
        """The amount of a resource, such as `mem` in MiB, of those `allocated` or `requested`; None for none."""
        found = (each for each in self.tres_items(kind) if each.get("type") == name)
        return next((count(each, "count") for each in found), None)

    def tres_items(self, kind: str) -> tuple[Record, ...]:
        """The resources that are allocated or requested."""
        return tuple(each for each in objects(part(self.record, "tres"), kind) if count(each, "count") >= 0)

    def used(self, how: str, name: str) -> int | None:
        """What a step used of a resource: `max`, `average` or `total`."""
        found = objects(part(part(self.record, "tres"), "requested"), how)
        return next((count(each, "count") for each in found if each.get("type") == name), None)

    @property
    def cpus(self) -> int:
        """The CPUs that it has."""
        return self.tres("allocated", "cpu") or 0

    @property
    def elapsed(self) -> int:
        """For how many seconds it has run."""
        return count(part(self.record, "time"), "elapsed")

    def cpu_microseconds(self, kind: str) -> int:
        """The CPU time: `total`, `user` or `system`. That of a job is the sum of its steps."""
        if self.step is not None or self.alone:
            return _microseconds(self.record, kind)
        return sum(_microseconds(each, kind) for each in objects(self.job, "steps"))


def _microseconds(record: Record, kind: str) -> int:
    value = part(part(record, "time"), kind)
    return count(value, "seconds") * 1_000_000 + count(value, "microseconds")


def _of_job(name: str) -> Callable[[Row], str]:
    return lambda row: text(row.job, name) if row.step is None else ""


def _moment(name: str, step_name: str | None = None) -> Callable[[Row], str]:
    def value_of(row: Row) -> str:
        if row.step is not None and step_name is None:
            return ""
        seconds = number(part(row.record, "time"), name if row.step is None else step_name or name)
        if seconds == _NEVER:
            return "None"
        return times.moment(seconds) if seconds else _UNKNOWN

    return value_of


def _limit(row: Row) -> str:
    time = part(row.job, "time")
    if row.step is not None:
        return ""
    minutes = number(time, "limit")
    if minutes is not None:
        return times.full_span(minutes * times.MINUTE)
    return "UNLIMITED" if infinite(time, "limit") else "Partition_Limit"


def _raw_limit(row: Row) -> str:
    time = part(row.job, "time")
    if row.step is not None:
        return ""
    minutes = number(time, "limit")
    return str(minutes) if minutes is not None else "UNLIMITED" if infinite(time, "limit") else "Partition_Limit"


def _resources(kind: str) -> Callable[[Row], str]:
    def value_of(row: Row) -> str:
        if row.step is not None and kind == "requested":
            return ""
        return ",".join(sorted(_resource(each) for each in row.tres_items(kind)))

    return value_of


def _resource(item: Record) -> str:
    kind, name, amount = text(item, "type"), text(item, "name"), count(item, "count")
    shown = mebibytes(amount) if kind == "mem" else str(amount)
    return f"{kind}/{name}={shown}" if name else f"{kind}={shown}"


def _used(how: str, name: str) -> Callable[[Row], str]:
    def value_of(row: Row) -> str:
        amount = None if row.step is None else row.used(how, name)
        return "" if amount is None else exact(amount)

    return value_of


def _exit(name: str) -> Callable[[Row], str]:
    def value_of(row: Row) -> str:
        if row.step is not None and name != "exit_code":
            return ""
        code, signal = exit_code(row.record, name)
        return f"{code}:{signal}"

    return value_of


def _cpu_time(kind: str) -> Callable[[Row], str]:
    return lambda row: times.precise_span(row.cpu_microseconds(kind))


def _requested_memory(row: Row) -> str:
    amount = None if row.step is not None else row.tres("requested", "mem")
    return "" if amount is None else mebibytes(amount)


def _nodes(row: Row) -> str:
    if row.step is not None:
        return text(part(row.step, "nodes"), "range")
    return text(row.job, "nodes") or "None assigned"


def _node_count(row: Row) -> str:
    if row.step is not None:
        return str(count(part(row.step, "nodes"), "count"))
    return str(count(row.job, "allocation_nodes") or row.tres("requested", "node") or 0)


_FLAGS = {
    "STARTED_ON_SCHEDULE": "SchedMain",
    "STARTED_ON_SUBMIT": "SchedSubmit",
    "STARTED_ON_BACKFILL": "SchedBackfill",
    "START_RECEIVED": "StartReceived",
}


def _planned(row: Row, factor: int) -> int:
    return count(part(row.job, "time"), "planned") * factor


def _required_cpus(row: Row) -> int:
    if row.step is not None:
        return row.cpus
    return count(part(row.job, "required"), "CPUs") or row.tres("requested", "cpu") or 0


def _only_job(value_of: Callable[[Row], str]) -> Callable[[Row], str]:
    return lambda row: value_of(row) if row.step is None else ""


def _only_step(value_of: Callable[[Row], str]) -> Callable[[Row], str]:
    return lambda row: value_of(row) if row.step is not None else ""


VALUES: Mapping[str, Callable[[Row], str]] = {
    "Account": lambda row: text(row.job, "account"),
    "AdminComment": _only_job(lambda row: text(part(row.job, "comment"), "administrator")),
    "AllocCPUS": lambda row: str(row.cpus),
    "AllocNodes": lambda row: str(row.tres("allocated", "node") or 0),
    "AllocTRES": _resources("allocated"),
    "AssocID": lambda row: str(count(part(row.job, "association"), "id") or ""),
    "AveRSS": _used("average", "mem"),
    "AveVMSize": _used("average", "vmem"),
    "Cluster": lambda row: text(row.job, "cluster"),
    "Comment": _only_job(lambda row: text(part(row.job, "comment"), "job")),
    "Constraints": _of_job("constraints"),
    "Container": _of_job("container"),
    "CPUTime": lambda row: times.full_span(row.elapsed * row.cpus),
    "CPUTimeRAW": lambda row: str(row.elapsed * row.cpus),
    "DerivedExitCode": _exit("derived_exit_code"),
    "Elapsed": lambda row: times.full_span(row.elapsed),
    "ElapsedRaw": lambda row: str(row.elapsed),
    "Eligible": _moment("eligible", "start"),
    "End": _moment("end", "end"),
    "Exclusive": _of_job("exclusive"),
    "ExitCode": _exit("exit_code"),
    "Extra": _of_job("extra"),
    "FailedNode": _of_job("failed_node"),
    "Flags": _only_job(lambda row: ",".join(_FLAGS[each] for each in texts(row.job, "flags") if each in _FLAGS)),
    "GID": _only_job(lambda row: str(count(row.job, "group_id") or "")),
    "Group": _of_job("group"),
    "JobID": lambda row: row.job_id + row.ending,
    "JobIDRaw": lambda row: f"{count(row.job, 'job_id')}{row.ending}",
    "JobName": lambda row: text(row.job, "name") if row.step is None else text(part(row.step, "step"), "name"),
    "Layout": _only_step(lambda row: text(part(row.record, "task"), "distribution")),
    "Licenses": _of_job("licenses"),
    "MaxRSS": _used("max", "mem"),
    "MaxVMSize": _used("max", "vmem"),
    "NCPUS": lambda row: str(row.cpus),
    "NNodes": _node_count,
    "NodeList": _nodes,
    "NTasks": _only_step(lambda row: str(count(part(row.record, "tasks"), "count"))),
    "OriginalSLUID": lambda row: text(row.job, "original_sluid"),
    "OverSubscribe": _of_job("oversubscribe"),
    "Partition": _of_job("partition"),
    "Planned": _only_job(lambda row: times.full_span(_planned(row, 1))),
    "PlannedCPU": _only_job(lambda row: times.full_span(_planned(row, _required_cpus(row)))),
    "PlannedCPURAW": _only_job(lambda row: str(_planned(row, _required_cpus(row)))),
    "Priority": _only_job(lambda row: "" if number(row.job, "priority") is None else str(count(row.job, "priority"))),
    "QOS": _of_job("qos"),
    "QOSREQ": _of_job("qosreq"),
    "Reason": _only_job(lambda row: text(part(row.job, "state"), "reason")),
    **dict.fromkeys(
        ("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin"), _only_job(lambda _row: _UNKNOWN)
    ),
    "ReqCPUS": lambda row: str(_required_cpus(row)),
    "ReqMem": _requested_memory,
    "ReqNodes": _node_count,
    "ReqTRES": _resources("requested"),
    "Reservation": _only_job(lambda row: text(part(row.job, "reservation"), "name")),
    "ReqReservation": _only_job(lambda row: text(part(row.job, "reservation"), "requested")),
    "Restarts": _only_job(lambda row: str(count(row.job, "restart_cnt"))),
    "SLUID": lambda row: text(row.job, "sluid"),
    "Start": _moment("start", "start"),
    "State": lambda row: row.state,
    "StdErr": _of_job("stderr"),
    "StdIn": _of_job("stdin"),
    "StdOut": _of_job("stdout"),
    "Submit": _moment("submission", "start"),
    "SubmitLine": lambda row: text(row.record, "submit_line"),
    "Suspended": lambda row: times.full_span(count(part(row.record, "time"), "suspended")),
    "SystemComment": _only_job(lambda row: text(part(row.job, "comment"), "system")),
    "SystemCPU": _cpu_time("system"),
    "Timelimit": _limit,
    "TimelimitRaw": _raw_limit,
    "TotalCPU": _cpu_time("total"),
    "UID": _only_job(lambda row: str(count(row.job, "user_id") or "")),
    "User": _of_job("user"),
    "UserCPU": _cpu_time("user"),
    "WCKey": _only_job(lambda row: text(part(row.job, "wckey"), "wckey")),
    "WorkDir": _of_job("working_directory"),
}
"""What is known over HTTP. Every other field of Slurm is empty."""

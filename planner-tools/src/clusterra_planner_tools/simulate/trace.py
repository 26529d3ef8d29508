"""Reads the jobs of a trace in the Standard Workload Format.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html: 18 columns, header lines begin with `;`, -1 is unknown, times
in seconds, requested memory in KB per processor. Traces published with the Alea simulator have 21 columns: also the
nodes used, the queue, and the request as `NODES[:ppn=CPUS_PER_NODE][:PROPERTY...][#excl]`; there memory is in bytes per
node.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

MemoryUnit = Literal["auto", "kb-per-processor", "bytes-per-node"]
"""The unit of the memory columns. `auto`: bytes per node where a line has a request, else KB per processor."""

_COLUMNS = 10
"""A line needs at least the columns up to the requested memory; later ones that are missing are unknown."""
_REQUEST = 20
_UNIX_START = re.compile(r";\s*UnixStartTime:\s*(\d+)")


class TraceUnreadable(ValueError):
    """No job can be read from the file. The text names the file and says what to do."""


class BadPeriod(ValueError):
    """A bound of the period is not a moment, or no job was submitted in it. The text says what can be given."""


class _BadLine(ValueError):
    """One line is not a job that ran. The text says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job. CPUs and memory are per node; times are in seconds of the trace's clock."""

    id: int
    submit: float
    run_seconds: float
    limit_seconds: float | None
    nodes: int
    cpus: int
    memory_gib: float
    """0 where the trace does not give it."""
    user: str
    exclusive: bool = False
    gpus: int = 0
    """Per node. No trace in the Standard Workload Format has any."""
    shapes: frozenset[str] | None = None
    """The shapes that the job may run on; None for any."""
    waited: float | None = None
    """How long it waited in the cluster that the trace is of, in seconds; None where that is unknown."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a job that ran."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a file in order of submission, and the lines that were left out."""

    path: Path
    jobs: tuple[Job, ...]
    bad: tuple[BadLine, ...] = ()
    starts_at: float = 0.0
    """The moment at which the trace's clock is 0, in seconds of the epoch."""

    def between(self, begin: str | None, end: str | None) -> "Trace":
        """The jobs submitted from `begin` on and before `end`, each a fraction of the whole time or an ISO date.

        A date without a time zone is in UTC. Raises BadPeriod.
        """
        since = -math.inf if begin is None else self._moment(begin)
        until = math.inf if end is None else self._moment(end)
        jobs = tuple(job for job in self.jobs if since <= job.submit < until)
        if not jobs:
            raise BadPeriod(f"no job of {self.path} was submitted from {begin} to {end}")
        return replace(self, jobs=jobs)

    def halves(self) -> tuple["Trace", "Trace"]:
        """The jobs of the first and of the second half of the time."""
        return self.between(None, "0.5"), self.between("0.5", None)

    def _moment(self, text: str) -> float:
        first, last = self.jobs[0].submit, self.jobs[-1].submit
        try:
            share = float(text)
        except ValueError:
            pass
        else:
            if not 0.0 <= share <= 1.0:
                raise BadPeriod(f"{text} is not a fraction from 0 to 1")
            return first + share * (last - first) if share < 1.0 else math.inf
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise BadPeriod(f"{text} is neither a fraction from 0 to 1 nor a date such as 2013-02-01") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - self.starts_at


def read(path: Path, memory: MemoryUnit = "auto", node_cpus: int | None = None) -> Trace:
    """Read a trace.

    `node_cpus`: a job with more processors and without a request is spread evenly over nodes of at most this many CPUs.
    Without `node_cpus` such a job runs on one node. Raises TraceUnreadable.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return read_lines(lines, path, memory, node_cpus)
    except OSError as error:
        raise TraceUnreadable(f"{path}: {error.strerror}; name a file in the Standard Workload Format") from error


def read_lines(lines: Iterable[str], path: Path, memory: MemoryUnit = "auto", node_cpus: int | None = None) -> Trace:
    """Read the lines of a trace, see `read`. `path` is the name of it in errors. Raises TraceUnreadable."""
    jobs: dict[int, Job] = {}
    bad: list[BadLine] = []
    starts_at = 0.0
    for number, line in enumerate(lines, start=1):
        if line.startswith(";") or not line.strip():
            if match := _UNIX_START.match(line):
                starts_at = float(match[1])
            continue
        try:
            job = _job(line.split(), memory, node_cpus)
        except _BadLine as error:
            bad.append(BadLine(number, str(error)))
            continue
        if job.id in jobs:
            bad.append(BadLine(number, f"job {job.id} is on an earlier line"))
        else:
            jobs[job.id] = job
    if not jobs:
        first = f" (line {bad[0].number}: {bad[0].reason})" if bad else ""
        raise TraceUnreadable(f"{path}: no line is a job{first}; name a file in the Standard Workload Format")
    return Trace(path, tuple(sorted(jobs.values(), key=lambda job: job.submit)), tuple(bad), starts_at)


def _job(columns: list[str], memory: MemoryUnit, node_cpus: int | None) -> Job:
    """Raises _BadLine."""
    if len(columns) < _COLUMNS:
        raise _BadLine(f"has {len(columns)} of 18 columns")
    number, submit, waited, run, used, _, used_kb, requested, limit, asked = (
        _number(text, place) for place, text in enumerate(columns[:_COLUMNS], start=1)
    )
    processors = int(requested if requested > 0 else used)
    if submit < 0:
        raise _BadLine("was never submitted: column 2 is negative")
    if run < 0:
        raise _BadLine("never ran: column 4 is negative")
    if processors <= 0:
        raise _BadLine("has no processors: columns 5 and 8")
    nodes, cpus, exclusive = _request(columns, processors, node_cpus)
    return Job(
        id=int(number),
        submit=submit,
        run_seconds=run,
        limit_seconds=limit if limit > 0 else None,
        nodes=nodes,
        cpus=cpus,
        memory_gib=_memory_gib(memory, len(columns) > _REQUEST, asked, used_kb, cpus),
        user=columns[11] if len(columns) > 11 else "-1",
        exclusive=exclusive,
        waited=waited if waited >= 0 else None,
    )


def _number(text: str, place: int) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _BadLine(f"column {place} is {text!r}, not a number") from None
    if not math.isfinite(value):
        raise _BadLine(f"column {place} is {text}, not a finite number")
    return value


def _request(columns: list[str], processors: int, node_cpus: int | None) -> tuple[int, int, bool]:
    """Nodes, CPUs per node, and whether the job is exclusive."""
    if len(columns) <= _REQUEST:
        nodes = -(-processors // node_cpus) if node_cpus else 1
        return nodes, -(-processors // nodes), False
    request, *flags = columns[_REQUEST].split("#")
    first, *properties = request.split(":")
    # A request that begins with a host name is for one node.
    nodes = max(1, int(first)) if first.isdecimal() else 1
    per_node = [int(each[4:]) for each in properties if each.startswith("ppn=") and each[4:].isdecimal()]
    cpus = per_node[0] if per_node and per_node[0] > 0 else -(-processors // nodes)
    return nodes, cpus, "excl" in flags


def _memory_gib(unit: MemoryUnit, has_request: bool, asked: float, used: float, cpus: int) -> float:
    if unit == "auto":
        unit = "bytes-per-node" if has_request else "kb-per-processor"
    if unit == "bytes-per-node":
        return max(asked, 0.0) / 2**30
    return max(asked if asked > 0 else used, 0.0) * cpus / 2**20

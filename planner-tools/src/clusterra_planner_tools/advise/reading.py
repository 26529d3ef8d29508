"""Reads all jobs of an input, whatever its format."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from clusterra_contracts.demand import DEFAULT_MEMORY_MIB_PER_CPU

from clusterra_planner_tools.advise import sacct_json, sacct_rows
from clusterra_planner_tools.advise.left_out import Counts, LeftOut, NotReadable
from clusterra_planner_tools.advise.progress import Progress, silent
from clusterra_planner_tools.advise.recorded import NO_MEMORY, Basis, Recorded, job_of
from clusterra_planner_tools.advise.source import Format, format_of, lines_of, opened
from clusterra_planner_tools.simulate import trace as traces
from clusterra_planner_tools.simulate.trace import Job, Trace


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read an input."""

    basis: Basis = "requested"
    zone: ZoneInfo | None = None
    """The zone of times without one; None: that of this machine."""
    since: str | None = None
    until: str | None = None
    """A part of the jobs, by date or by fraction of the time."""
    node_cpus: int | None = None
    """The CPUs of a node: in a trace, jobs with more processors are spread over several nodes."""


@dataclass(frozen=True, slots=True)
class Read:
    """What an input has."""

    trace: Trace
    format: Format
    counts: Counts


def read(path: Path, options: ReadOptions, progress: Progress = silent) -> Read:
    """Read an input. Raises NotReadable, and BadPeriod for a period without jobs."""
    counts = Counts()
    with opened(path, progress) as stream:
        found = format_of(stream, path)
        try:
            match found:
                case "swf":
                    trace = _swf(lines_of(stream), path, options, counts)
                case "sacct --json":
                    trace = _sacct(sacct_json.jobs(stream), path, options, counts)
                case "sacct --parsable2":
                    trace = _sacct(sacct_rows.rows(lines_of(stream), options.zone), path, options, counts)
        except NotReadable as error:
            raise NotReadable(f"{path}: {error}") from None
    if options.since or options.until:
        trace = trace.between(_zoned(options.since, options), _zoned(options.until, options))
    return Read(trace, found, counts)


def _swf(lines: Iterable[str], path: Path, options: ReadOptions, counts: Counts) -> Trace:
    try:
        trace = traces.read_lines(lines, path, node_cpus=options.node_cpus)
    except traces.TraceUnreadable as error:
        raise NotReadable(str(error).removeprefix(f"{path}: ")) from None
    counts.records = len(trace.jobs) + len(trace.bad)
    for bad in trace.bad:
        # The number of a column or a job makes no other reason.
        reason = "the same job as on an earlier line" if "earlier line" in bad.reason else bad.reason
        reason = "a column is no number" if "number" in reason else reason.split(":", 1)[0]
        skipped = reason.startswith("never")
        (counts.skipped if skipped else counts.bad)["jobs that never started" if skipped else reason] += 1
        if not skipped:
            counts.first_bad.setdefault(reason, bad.number)
    without = sum(not job.memory_gib for job in trace.jobs)
    if without:
        counts.assumed[NO_MEMORY] += without
        gib = DEFAULT_MEMORY_MIB_PER_CPU / 1024
        jobs = (job if job.memory_gib else replace(job, memory_gib=job.cpus * gib) for job in trace.jobs)
        trace = replace(trace, jobs=tuple(jobs))
    return trace


def _sacct(records: Iterable[Recorded | LeftOut], path: Path, options: ReadOptions, counts: Counts) -> Trace:
    jobs: list[Job] = []
    seen: set[int] = set()
    for record in records:
        counts.records += 1
        if isinstance(record, LeftOut):
            counts.left_out(record)
            continue
        run = hash((record.ident, record.submit, record.start))
        if run in seen:
            counts.left_out(LeftOut("the same run of a job as in an earlier record"))
            continue
        seen.add(run)
        try:
            jobs.append(job_of(record, len(jobs), options.basis, counts))
        except LeftOut as error:
            counts.left_out(error)
    if not jobs:
        reasons = "; ".join(f"{number} {reason}" for reason, number in (counts.bad + counts.skipped).most_common(3))
        raise NotReadable(f"no record is a job that ran{f' ({reasons})' if reasons else ''}")
    jobs.sort(key=lambda job: job.submit)
    return Trace(path, tuple(jobs))


def _zoned(text: str | None, options: ReadOptions) -> str | None:
    """A date in the zone of the input."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=options.zone) if options.zone else moment.astimezone()
    return moment.isoformat()

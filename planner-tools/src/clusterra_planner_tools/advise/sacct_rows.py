"""Reads `sacct --parsable2` (and `--parsable`) with its header line: one job per line, one field per column."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError, ValidationInfo

from clusterra_planner_tools.advise import slurm_values
from clusterra_planner_tools.advise.left_out import LeftOut, NotAJob, NotReadable
from clusterra_planner_tools.advise.recorded import Recorded, Resources

COMMAND = (
    "sacct --allusers --allocations --duplicates --parsable2 --starttime=2026-01-01"
    " --format=JobIDRaw,User,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,ReqCPUS,AllocCPUS,"
    "ReqMem,ReqTRES,AllocTRES"
)
"""What makes a good input."""
_NEEDED = (
    ("a job id", ("jobidraw", "jobid")),
    ("State", ("state",)),
    ("Submit", ("submit", "eligible")),
    ("ElapsedRaw", ("elapsedraw", "elapsed", "end")),
    ("ReqCPUS", ("reqcpus", "alloccpus", "ncpus", "reqtres", "alloctres")),
)


def _moment(text: str, info: ValidationInfo) -> float | None:
    return slurm_values.moment(text, info.context)


def _seconds(text: str) -> float | None:
    if text.lower() in slurm_values.NO_LIMIT:
        return None
    return slurm_values.bounded(float(text), slurm_values.MAX_SECONDS)


def _minutes(text: str) -> float | None:
    seconds = _seconds(text)
    return None if seconds is None else seconds * 60


type _Text = Annotated[str, StringConstraints(max_length=256)]
type _Moment = Annotated[float | None, BeforeValidator(_moment)]
type _Count = Annotated[int | None, BeforeValidator(slurm_values.count)]
type _Duration = Annotated[float | None, BeforeValidator(slurm_values.duration)]
type _Raw = Annotated[float | None, BeforeValidator(_seconds)]


class _Row(BaseModel):
    """The columns that are read, by their names in lower case."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    jobidraw: _Text = ""
    jobid: _Text = ""
    user: _Text = ""
    state: _Text
    submit: _Moment = None
    eligible: _Moment = None
    start: _Moment = None
    end: _Moment = None
    elapsedraw: _Raw = None
    elapsed: _Duration = None
    timelimitraw: Annotated[float | None, BeforeValidator(_minutes)] = None
    timelimit: _Duration = None
    nnodes: _Count = None
    allocnodes: _Count = None
    reqnodes: _Count = None
    reqcpus: _Count = None
    alloccpus: _Count = None
    ncpus: _Count = None
    reqmem: Annotated[tuple[float, str] | None, BeforeValidator(slurm_values.memory)] = None
    reqtres: Annotated[dict[str, str], BeforeValidator(slurm_values.resources)] = {}
    alloctres: Annotated[dict[str, str], BeforeValidator(slurm_values.resources)] = {}


def is_header(line: str) -> bool:
    """Whether the line is the header of a table that sacct wrote."""
    names = {each.strip().lower() for each in line.split("|")}
    return "|" in line and bool(names & {"jobid", "jobidraw"})


def rows(lines: Iterable[str], zone: ZoneInfo | None) -> Iterator[Recorded | LeftOut]:
    """The records of the lines, the first of which is the header. Raises NotReadable if that lacks a column."""
    numbered = iter(lines)
    header = [each.strip().lower() for each in next(numbered, "").rstrip("\r\n").split("|")]
    # `--parsable` ends each line with a delimiter, `--parsable2` does not.
    if trailing := header[-1] == "":
        header.pop()
    missing = [name for name, any_of in _NEEDED if not any(each in header for each in any_of)]
    if missing:
        raise NotReadable(f"the header has no column for {', '.join(missing)}; try\n  {COMMAND}")
    read = _reader(header, trailing, zone)
    for line in numbered:
        text = line.rstrip("\r\n")
        if not text:
            continue
        try:
            yield read(text)
        except LeftOut as error:
            yield error


def _reader(header: Sequence[str], trailing: bool, zone: ZoneInfo | None) -> Callable[[str], Recorded]:
    known = [(place, name) for place, name in enumerate(header) if name in _Row.model_fields]
    columns, at_id = len(header) + trailing, header.index("jobid" if "jobid" in header else "jobidraw")

    def read(line: str) -> Recorded:
        values = line.split("|")
        if len(values) != columns:
            raise LeftOut("more or fewer columns than the header")
        if "." in values[at_id]:
            raise NotAJob("steps of jobs")
        if values == header:
            raise NotAJob("repeated headers")
        given: dict[str, Any] = {name: values[place] for place, name in known}
        try:
            return _recorded(_Row.model_validate(given, context=zone))
        except ValidationError as error:
            raise LeftOut(f"{error.errors()[0]['loc'][0]}: not a value of Slurm's") from None
        except ValueError:
            raise LeftOut("reqtres or alloctres: not a value of Slurm's") from None

    return read


def _recorded(row: _Row) -> Recorded:
    nodes = row.nnodes or row.allocnodes or row.reqnodes or slurm_values.count(row.alloctres.get("node", "")) or 1
    requested = _resources(row.reqtres, row.reqcpus)
    if requested.memory_mib is None and row.reqmem is not None:
        mib, per = row.reqmem
        requested = Resources(
            requested.cpus,
            mib,
            {"c": "cpu", "n": "node"}.get(per, "job"),  # type: ignore[arg-type]
            requested.gpus,
            requested.gpu_model,
        )
    return Recorded(
        ident=row.jobidraw or row.jobid,
        user=row.user,
        state=slurm_values.state(row.state),
        submit=row.submit,
        eligible=row.eligible,
        start=row.start,
        end=row.end,
        elapsed=row.elapsed if row.elapsedraw is None else row.elapsedraw,
        limit_seconds=row.timelimit if row.timelimitraw is None else row.timelimitraw,
        nodes=nodes,
        requested=requested,
        allocated=_resources(row.alloctres, row.alloccpus or row.ncpus),
    )


def _resources(tres: dict[str, str], cpus: int | None) -> Resources:
    number, model = slurm_values.gpus(tres)
    size = slurm_values.memory(tres.get("mem", ""))
    return Resources(
        cpus=slurm_values.count(tres.get("cpu", "")) or cpus,
        memory_mib=size[0] if size else None,
        gpus=number,
        gpu_model=model,
    )

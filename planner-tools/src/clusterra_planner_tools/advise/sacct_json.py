"""Reads the jobs of `sacct --json`, as Slurm's data parsers from 21.08 on write them."""

from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from clusterra_planner_tools.advise import slurm_values
from clusterra_planner_tools.advise.json_stream import RecordCutter, broken
from clusterra_planner_tools.advise.left_out import LeftOut
from clusterra_planner_tools.advise.recorded import Recorded, Resources

_MAX_MOMENT = 10_000_000_000


def _number(value: Any) -> float | None:
    """A number, alone or as `{"set": …, "infinite": …, "number": …}`; None where it is unset or infinite."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None or (isinstance(value, int) and value < 0):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        # pydantic takes a ValueError alone for a wrong value.
        raise ValueError("not a number")  # noqa: TRY004
    # Slurm's own marks for no value and no limit.
    return None if value in (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF) else float(value)


def _word(value: Any) -> Any:
    """A state, alone or as a list of flags of which the first is the state."""
    return (value[0] if value else "") if isinstance(value, list) else value


type _Moment = Annotated[float | None, Field(ge=0, le=_MAX_MOMENT), BeforeValidator(_number)]
type _Seconds = Annotated[float | None, Field(ge=0, le=slurm_values.MAX_SECONDS), BeforeValidator(_number)]
type _Count = Annotated[float | None, Field(ge=0, le=slurm_values.MAX_COUNT), BeforeValidator(_number)]
type _Mib = Annotated[float | None, Field(ge=0, le=slurm_values.MAX_MIB), BeforeValidator(_number)]
type _Text = Annotated[str, StringConstraints(max_length=256), BeforeValidator(lambda text: text or "")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Time(_Model):
    submission: _Moment = None
    eligible: _Moment = None
    start: _Moment = None
    end: _Moment = None
    elapsed: _Seconds = None
    limit: _Seconds = None
    """In minutes."""


class _State(_Model):
    current: Annotated[_Text, BeforeValidator(_word)] = ""


class _Resource(_Model):
    type: _Text = ""
    name: _Text = ""
    count: Annotated[float | None, Field(ge=0, le=slurm_values.MAX_MIB), BeforeValidator(_number)] = None


class _Tres(_Model):
    requested: Annotated[tuple[_Resource, ...], Field(max_length=256)] = ()
    allocated: Annotated[tuple[_Resource, ...], Field(max_length=256)] = ()


class _Required(_Model):
    cpus: _Count = Field(default=None, validation_alias=AliasChoices("CPUs", "cpus"))
    memory_per_cpu: _Mib = None
    memory_per_node: _Mib = None


class _Job(_Model):
    job_id: Annotated[int, Field(ge=0)]
    user: _Text = ""
    state: _State = _State()
    time: _Time
    required: _Required = _Required()
    tres: _Tres = _Tres()
    allocation_nodes: _Count = None


def jobs(stream: BinaryIO) -> Iterator[Recorded | LeftOut]:
    """The records of a document. Raises NotReadable."""
    return iter(RecordCutter(stream, "jobs", _read))


def _read(piece: bytes) -> Recorded:
    try:
        return _recorded(_Job.model_validate_json(piece))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise broken(first["msg"]) from None
        place = ".".join(each for each in map(str, first["loc"]) if not each.isdecimal())
        raise LeftOut(f"{place}: not a value of Slurm's") from None
    except ValueError:
        raise LeftOut("tres: not a value of Slurm's") from None


def _recorded(job: _Job) -> Recorded:
    requested, allocated = _resources(job.tres.requested), _resources(job.tres.allocated)
    nodes = job.allocation_nodes or next((each.count for each in job.tres.allocated if each.type == "node"), None)
    return Recorded(
        ident=str(job.job_id),
        user=job.user,
        state=slurm_values.state(job.state.current),
        submit=job.time.submission or None,
        eligible=job.time.eligible or None,
        start=job.time.start or None,
        end=job.time.end or None,
        elapsed=job.time.elapsed,
        limit_seconds=job.time.limit * 60 if job.time.limit else None,
        nodes=int(nodes or 1),
        requested=_with_required(requested, job.required),
        allocated=allocated,
    )


def _resources(listed: tuple[_Resource, ...]) -> Resources:
    amounts = {each.type if not each.name else f"{each.type}/{each.name}": each.count or 0.0 for each in listed}
    gpus, model = slurm_values.gpus({name: str(int(number)) for name, number in amounts.items()})
    return Resources(
        cpus=min(int(amounts.get("cpu", 0)), slurm_values.MAX_COUNT) or None,
        memory_mib=amounts.get("mem") or None,
        gpus=gpus,
        gpu_model=model,
    )


def _with_required(found: Resources, required: _Required) -> Resources:
    """What the list of requested resources lacks."""
    cpus = found.cpus or (int(required.cpus) if required.cpus else None)
    mib, per = found.memory_mib, found.memory_per
    if mib is None and required.memory_per_cpu:
        mib, per = required.memory_per_cpu, "cpu"
    elif mib is None and required.memory_per_node:
        mib, per = required.memory_per_node, "node"
    return Resources(cpus, mib, per, found.gpus, found.gpu_model)

"""slurmdbd's records of job steps: what each had, and when."""

from typing import Annotated, Any, ClassVar

from clusterra_contracts.identity import JobId
from clusterra_contracts.rpc.slurm_steps import MAX_STEPS, Allocation
from pydantic import BeforeValidator

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.fields import (
    ArrayTask,
    JobNumber,
    NullableList,
    Number,
    OtherJob,
    States,
    Text,
    Time,
)
from clusterra_proxy.slurmrestd.reading.repair import Readable, Record, read_records

OWN = frozenset({"batch", "extern", "interactive"})
"""The steps that Slurm starts itself. They have all of a node for as long as the job lasts, whatever they use."""


def _counted(value: Any) -> Any:
    """Slurm's NO_VAL and INFINITE of 64 bits, as it writes the energy of a step: a signed number here."""
    return None if value in (-1, -2) else value


class _Tres(Record):
    type: Text = ""
    name: Text = ""
    count: Annotated[Number, BeforeValidator(_counted)] = None


class _Allocated(Record):
    allocated: NullableList[_Tres] = ()

    def allocation(self) -> Allocation:
        """The CPUs, memory, GPUs and nodes among the trackable resources. Slurm counts memory in MiB here."""
        counts = {(each.type, each.name): each.count or 0 for each in self.allocated}
        # With types of GPUs, there is an entry for all of them and one for each type.
        return Allocation(
            cpus=counts.get(("cpu", ""), 0),
            memory_mib=counts.get(("mem", ""), 0),
            gpus=counts.get(("gres", "gpu"), 0),
            nodes=counts.get(("node", ""), 0),
        )


class _Times(Record):
    start: Time = None
    end: Time = None


class _Name(Record):
    id: Text
    """`42.0`, `42.batch`; for an array task its own job number is before the dot."""
    name: Text = ""


class StepRecord(Readable):
    """A step of a job."""

    KEY: ClassVar = "step"
    HARMLESS: ClassVar = frozenset({"state"})
    UNKNOWN: ClassVar = {"time": _Times()}

    step: _Name
    state: States = ("UNKNOWN",)
    time: _Times
    tres: _Allocated = _Allocated()

    @property
    def number(self) -> str:
        """What is after the dot of its id: `0`, `0+1`, `batch`."""
        return self.step.id.partition(".")[2]


class _Array(Record):
    job_id: OtherJob = None
    task_id: ArrayTask = None


_MOST = MAX_STEPS + len(OWN)
"""How many steps of a run are read."""


class AccountingSteps(Readable):
    """A run of a job with its steps, which are read one by one."""

    KEY: ClassVar = "job_id"
    UNKNOWN: ClassVar = {"time": _Times()}

    job_id: JobNumber
    array: _Array = _Array()
    time: _Times
    tres: _Allocated = _Allocated()
    steps: NullableList[Any] = ()

    @property
    def id(self) -> JobId:
        """The job id in Slurm's notation: `42`, or `42_7` for an array task."""
        if self.array.job_id and self.array.task_id is not None:
            return f"{self.array.job_id}_{self.array.task_id}"
        return str(self.job_id)

    def started_steps(self) -> tuple[tuple[StepRecord, ...], int]:
        """Return the steps that people started, and how many steps could not be read."""
        read, unreadable = read_records(StepRecord, self.steps[:_MOST])
        steps = tuple(each for each in read if each.number not in OWN and each.time.start is not None)
        return steps, len(unreadable) + max(len(self.steps) - _MOST, 0)


class AccountingStepLists(Answer):
    """Answer to `GET slurmdb jobs/` with the steps of jobs."""

    RECORDS: ClassVar = "jobs"
    RECORD: ClassVar = AccountingSteps
    KIND: ClassVar = "accounting"

    jobs: NullableList[AccountingSteps] = ()

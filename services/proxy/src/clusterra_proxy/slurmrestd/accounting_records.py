"""slurmdbd's job records, converted to the fields of slurmctld's."""

from dataclasses import dataclass
from typing import Any, ClassVar

from clusterra_contracts.job_states import ENDED
from pydantic import Field

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.notation.array_tasks import from_bitmap
from clusterra_proxy.slurmrestd.reading.fields import (
    Account,
    ArrayTask,
    Count,
    Hosts,
    JobNumber,
    NullableList,
    Number,
    OtherJob,
    States,
    Text,
    Time,
)
from clusterra_proxy.slurmrestd.reading.repair import Readable, Record
from clusterra_proxy.slurmrestd.records import UNKNOWN_STATE, ExitCode, JobRecord

SUPERSEDED = "REQUEUED"
"""State of a run that was requeued as another run. slurmdbd lists it beside the state in which the run ended."""


class _Times(Record):
    submission: Time = None
    start: Time = None
    end: Time = None
    limit: Number = None


class _Running(Record):
    tasks: Number = None


class _Max(Record):
    running: _Running = _Running()


class _Limits(Record):
    max: _Max = _Max()


class _Array(Record):
    job_id: OtherJob = None
    task_id: ArrayTask = None
    task: Text = ""
    """The tasks that have not started, as a hexadecimal bitmap: `0x17` is `0-2,4`."""
    limits: _Limits = _Limits()


class _Heterogeneous(Record):
    job_id: OtherJob = None
    job_offset: Number = None


class _State(Record):
    current: States = (UNKNOWN_STATE,)
    reason: Text = ""


class _Required(Record):
    cpus: Count = Field(default=1, alias="CPUs")
    memory_per_cpu: Number = None
    memory_per_node: Number = None


class _Comments(Record):
    job: Text = ""
    administrator: Text = ""


class AccountingJob(Readable):
    """One run of a job as slurmdbd stores it. A requeued job has one record for each run."""

    KEY: ClassVar = "job_id"
    HARMLESS: ClassVar = frozenset(
        {
            *("name", "user", "constraints", "exit_code", "account", "qos"),
            *("stdout", "stderr", "stdout_expanded", "stderr_expanded"),
        }
    )
    UNKNOWN: ClassVar = {"state": _State(), "time": _Times()}

    job_id: JobNumber
    array: _Array = _Array()
    het: _Heterogeneous = _Heterogeneous()
    name: Text = ""
    user: Text = ""
    comment: _Comments = _Comments()
    state: _State
    partition: Text = ""
    account: Account = ""
    qos: Text = ""
    nodes: Hosts = ""
    allocation_nodes: Count = 0
    constraints: Text = ""
    required: _Required = _Required()
    time: _Times
    restart_cnt: Count = 0
    exit_code: ExitCode = ExitCode()
    stdout: Text = ""
    stderr: Text = ""
    stdout_expanded: Text = ""
    stderr_expanded: Text = ""

    def to_job_record(self, uid: int | None) -> JobRecord:
        """Convert to slurmctld's record. `uid` is the owner's uid, or None when the query does not prove it."""
        values: dict[str, Any] = {
            "job_id": self.job_id,
            "array_job_id": self.array.job_id,
            "array_task_id": self.array.task_id,
            "array_task_string": from_bitmap(self.array.task),
            "array_max_tasks": self.array.limits.max.running.tasks,
            "het_job_id": self.het.job_id,
            "het_job_offset": self.het.job_offset,
            "user_id": uid,
            "user_name": self.user,
            "comment": self.comment.job,
            "admin_comment": self.comment.administrator,
            "job_state": (SUPERSEDED,) if SUPERSEDED in self.state.current else self.state.current,
            "state_reason": self.state.reason,
            "node_count": self.allocation_nodes or None,
            "cpus": self.required.cpus,
            "memory_per_node": self.required.memory_per_node,
            "memory_per_cpu": self.required.memory_per_cpu,
            "features": self.constraints,
            "time_limit": self.time.limit,
            "submit_time": self.time.submission,
            "start_time": self.time.start,
            "end_time": self.time.end,
            "standard_output": self.stdout,
            "standard_error": self.stderr,
            "unreadable": self.unreadable,
        }
        same = (
            *("name", "partition", "account", "qos", "nodes", "restart_cnt"),
            *("exit_code", "stdout_expanded", "stderr_expanded"),
        )
        return JobRecord(**values, **{field: getattr(self, field) for field in same})


class _Duration(Record):
    seconds: Count = 0
    microseconds: Count = 0


class _StepTime(Record):
    end: Time = None
    total: _Duration = _Duration()


class _Tres(Record):
    type: Text = ""
    count: Number = None


class _Consumed(Record):
    max: NullableList[_Tres] = ()


class _StepTres(Record):
    requested: _Consumed = _Consumed()
    """Slurm's name for what the tasks of a step consumed."""


class _Step(Record):
    time: _StepTime = _StepTime()
    tres: _StepTres = _StepTres()


class AccountingUsage(Readable):
    """What the steps of one run of a job consumed, and who cancelled it."""

    KEY: ClassVar = "job_id"
    HARMLESS: ClassVar = frozenset({"steps", "kill_request_user"})
    UNKNOWN: ClassVar = {"state": _State(), "time": _Times()}

    job_id: JobNumber
    state: _State = _State()
    time: _Times
    steps: NullableList[_Step] = ()
    kill_request_user: Text = ""
    """The name of the user who cancelled the job, or the uid where slurmdbd knows no name."""

    @property
    def complete(self) -> bool:
        """Whether slurmdbd has the end of the job and of all its steps."""
        return bool(ENDED & set(self.state.current)) and all(step.time.end is not None for step in self.steps)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all steps."""
        return sum(step.time.total.seconds + step.time.total.microseconds / 1e6 for step in self.steps)

    @property
    def peak_memory_mib(self) -> int | None:
        """The most memory that one task had, rounded up; None when no step measured it."""
        peaks = [tres.count for step in self.steps for tres in step.tres.requested.max if tres.type == "mem"]
        return max((-(-count // 2**20) for count in peaks if count), default=None)


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run used that has ended, without its steps. None for what slurmdbd does not know."""

    cpu_seconds: float | None = None
    peak_memory_mib: int | None = None
    cancelled_by: str | None = None


class AccountingUsages(Answer):
    """Answer to `GET slurmdb jobs/` with the steps of jobs."""

    RECORDS: ClassVar = "jobs"
    RECORD: ClassVar = AccountingUsage
    KIND: ClassVar = "accounting"

    jobs: NullableList[AccountingUsage] = ()


class AccountingJobs(Answer):
    """Answer to `GET slurmdb jobs/` and `job/{id}`."""

    RECORDS: ClassVar = "jobs"
    RECORD: ClassVar = AccountingJob
    KIND: ClassVar = "accounting"

    jobs: NullableList[AccountingJob] = ()

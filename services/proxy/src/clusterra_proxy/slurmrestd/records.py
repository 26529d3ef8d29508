"""Slurm's job and node records as the newest data parser names their fields; only those that the proxy reads."""

import re
from datetime import datetime
from functools import cached_property
from typing import Annotated, ClassVar

from clusterra_contracts.identity import JobId
from clusterra_contracts.job_states import BASE, LIVE, SUSPENDED
from pydantic import Field

from clusterra_proxy.slurmrestd import job_ends
from clusterra_proxy.slurmrestd.notation import hostlist
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.slurmrestd.reading.fields import (
    Account,
    ArrayTask,
    ArrayTasks,
    Count,
    Hosts,
    JobNumber,
    MailTypes,
    NullableList,
    Number,
    OtherJob,
    States,
    Text,
    Texts,
    Time,
    TimeLimit,
    Uid,
)
from clusterra_proxy.slurmrestd.reading.repair import Readable, Record

UNKNOWN_STATE = "UNKNOWN"
"""The state of a record whose state cannot be read."""

_NODES_REQUESTED = re.compile(r"\bnode=(\d{1,9})(?!\d)")


class Signal(Record):
    """The signal that ended a job."""

    id: Number = None


class ExitCode(Record):
    """The exit code of a job's script, and the signal that ended it."""

    return_code: Number = None
    signal: Signal = Signal()


EXCEEDED = "exceeded "
"""How the reasons begin that a worker gives for killing a job (images/slurm/worker-limits)."""


class JobRecord(Readable):
    """A job, an array task, or all waiting tasks of an array: slurmctld's `job_info`."""

    KEY: ClassVar = "job_id"
    HARMLESS: ClassVar = frozenset(
        {
            *("name", "user_name", "exit_code", "admin_comment", "account", "qos"),
            *("mail_type", "standard_output", "standard_error", "stdout_expanded", "stderr_expanded"),
        }
    )
    UNKNOWN: ClassVar = {"job_state": (UNKNOWN_STATE,)}

    job_id: JobNumber
    """Slurm's number of this record. Tasks of one array have different numbers."""
    array_job_id: OtherJob = None
    array_task_id: ArrayTask = None
    array_task_string: ArrayTasks = ""
    array_max_tasks: Number = None
    name: Text = ""
    user_id: Uid | None = None
    """None in accounting, whose records hold no uid."""
    user_name: Text = ""
    comment: Text = ""
    admin_comment: Text = ""
    """Only administrators can write it: `worker-limits` says there why it killed the job."""
    job_state: States
    state_reason: Text = ""
    priority: Number = None
    hold: bool = False
    partition: Text = ""
    account: Account = ""
    qos: Text = ""
    nodes: Hosts = ""
    node_count: Number = None
    """For a pending job only Slurm's guess: see `min_nodes`."""
    max_nodes: Number = None
    required_nodes: Hosts = ""
    excluded_nodes: Hosts = ""
    cpus: Number = None
    tasks: Number = None
    cpus_per_task: Number = None
    minimum_cpus_per_node: Number = None
    memory_per_node: Number = None
    """MiB; 0 means all memory of a node. With `memory_per_tres` it is the memory per GPU."""
    memory_per_cpu: Number = None
    memory_per_tres: Text = ""
    features: Text = ""
    extra: Text = ""
    """An expression over the Extra of nodes."""
    tres_req_str: Text = ""
    """The total request, such as `cpu=4,mem=4G,node=2,gres/gpu=4`."""
    tres_alloc_str: Text = ""
    """The total allocation, in the same notation."""
    tres_per_job: Text = ""
    tres_per_node: Text = ""
    tres_per_socket: Text = ""
    tres_per_task: Text = ""
    gres_detail: NullableList[str] = ()
    """The allocation of a running job on each of its nodes, in the order of `nodes`: `gpu:h100:2(IDX:0-1)`.
    Empty once the job has ended, even while its nodes are still completing."""
    shared: Texts = ()
    """`none`, `topo`: shares nodes with no other job; `user`, `mcs`: only with the same user. Empty in v0.0.45."""
    resv_name: Text = ""
    dependency: Text = ""
    het_job_id: OtherJob = None
    het_job_offset: Number = None
    het_job_id_set: Text = ""
    """The ids of all components, such as `42-43`."""
    time_limit: TimeLimit = None
    """Minutes."""
    submit_time: Time = None
    eligible_time: Time = None
    start_time: Time = None
    end_time: Time = None
    restart_cnt: Count = 0
    exit_code: ExitCode = ExitCode()
    mail_type: MailTypes = ()
    standard_output: Text = ""
    standard_error: Text = ""
    stdout_expanded: Text = ""
    stderr_expanded: Text = ""

    @cached_property
    def id(self) -> JobId:
        """The job id in Slurm's notation: `42`, or `42_7` for an array task."""
        if self.array and self.array_task_id is not None:
            return f"{self.array}_{self.array_task_id}"
        return str(self.job_id)

    @cached_property
    def sort_key(self) -> tuple[int, int, int]:
        """Submit time in epoch seconds, id of the job or array, and task.

        No two records have the same. It is cached, because a list of jobs needs it of every record.
        """
        submitted = -1 if self.submit_time is None else int(self.submit_time.timestamp())
        task = self.array_task_id if self.array else None
        if task is None:
            return submitted, self.job_id, -1
        return submitted, self.array or 0, task

    @property
    def array(self) -> int | None:
        """The id of the array that the record belongs to."""
        return self.array_job_id or None

    @property
    def reason_to_show(self) -> str:
        """Slurm's reason, or which fields cannot be read; empty for none."""
        if self.unreadable:
            return f"Unreadable: {', '.join(self.unreadable)}"
        if self.admin_comment.startswith(EXCEEDED):
            return self.admin_comment
        told = "" if self.state_reason == "None" else self.state_reason
        if self.ended:
            return job_ends.reason(self.state, self.return_code, self.exit_code.signal.id, told)
        return told or (SUSPENDED if self.state == "SUSPENDED" else "")

    def cancelled_before_start(self) -> "JobRecord":
        """Return the record of any task of this array that was cancelled before it started, without number and time.

        Its copies are cheap: a user can cancel 50,000 tasks at once. A copy of the array would keep its cached id.
        """
        unstarted = {"nodes": "", "start_time": None, "restart_cnt": 0, "state_reason": ""}
        known = {"array_task_string": "", "job_state": ("CANCELLED",)}
        return JobRecord.model_validate(self.model_dump() | known | unstarted)

    @property
    def is_waiting_array(self) -> bool:
        """Whether this record stands for the waiting tasks of an array, which have not started."""
        return self.array is not None and self.array_task_id is None

    @property
    def never_started_tasks(self) -> bool:
        """Whether this record stands for one or several tasks of an array that ended without a start."""
        return self.array is not None and self.ended and self.started_at is None

    @cached_property
    def state(self) -> str:
        """The base state, without flags such as `COMPLETING`."""
        return next((state for state in self.job_state if state in BASE), self.job_state[0])

    @cached_property
    def min_nodes(self) -> int:
        """The minimum number of nodes of the request."""
        asked = _NODES_REQUESTED.search(self.tres_req_str)
        return max(int(asked[1]) if asked else self.node_count or 1, 1)

    @property
    def ended(self) -> bool:
        """Whether this run has ended. Its nodes may still be cleaning up (`COMPLETING`)."""
        return self.state not in LIVE and self.state != UNKNOWN_STATE

    @property
    def return_code(self) -> int | None:
        """The exit code of a job that has ended by itself.

        Slurm reports 0 also for jobs that were cancelled, timed out, or were ended by a signal: these have none. For a
        node that failed, slurmdbd reports 1.
        """
        code = self.exit_code.return_code
        if not self.ended or self.started_at is None or (code == 0 and self.state != "COMPLETED"):
            return None
        return None if self.state in job_ends.LOST else code

    @property
    def signal(self) -> int | None:
        """The signal that ended the job; None where Slurm reports a number that was no signal."""
        return job_ends.signal(self.state, self.exit_code.signal.id) if self.ended else None

    @property
    def holds_nodes(self) -> bool:
        """Whether the job occupies nodes now, running or completing."""
        return bool(self.nodes) and (self.state in {"RUNNING", "SUSPENDED"} or "COMPLETING" in self.job_state)

    @property
    def requeueing(self) -> bool:
        """Whether a run is being replaced by another one that has no submit time of its own yet."""
        return self.state == "PENDING" and "COMPLETING" in self.job_state

    @property
    def started_at(self) -> datetime | None:
        """When this run started. `start_time` of a pending record is a forecast, of a cancelled one its end."""
        started = not self.requeueing and self.state not in ("PENDING", UNKNOWN_STATE)
        return self.start_time if started and self.host_count else None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes allocated to the job, expanded at each use: kept, those of all records take too much memory."""
        return hostlist.expand(self.nodes)

    @property
    def host_count(self) -> int:
        """The number of nodes allocated to the job."""
        return hostlist.count(self.nodes)

    @cached_property
    def parsed_comment(self) -> Comment:
        """The values in the job's comment, which prove nothing."""
        return Comment.parse(self.comment)


class NodeRecord(Readable):
    """A node: slurmctld's `node`."""

    KEY: ClassVar = "name"
    HARMLESS: ClassVar = frozenset({"reason", "reason_changed_at", "slurmd_start_time"})

    name: Annotated[str, Field(min_length=1)]
    state: Texts = ()
    cpus: Count = 0
    alloc_cpus: Count = 0
    real_memory: Count = 0
    """MiB, as is `alloc_memory`."""
    alloc_memory: Count = 0
    gres: Text = ""
    """For example `gpu:h100:8(S:0-1)`."""
    gres_used: Text = ""
    """For example `gpu:h100:3(IDX:0,2-3)`, or `gpu:h100:0(IDX:N/A)`."""
    features: Texts = ()
    extra: Text = ""
    reason: Text = ""
    reason_changed_at: Time = None
    last_busy: Time = None
    slurmd_start_time: Time = None

    @property
    def draining(self) -> bool:
        """Whether the node is drained or draining: it accepts no new job."""
        return "DRAIN" in self.state

    @property
    def busy(self) -> bool:
        """Whether any field of the record shows that jobs run or complete on the node, or cannot be read."""
        occupied = {"ALLOCATED", "MIXED", "COMPLETING"} & set(self.state)
        return bool(occupied or self.alloc_cpus or self.alloc_memory or self.unreadable)

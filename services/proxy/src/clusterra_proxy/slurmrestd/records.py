"""Slurm's job and node records, in the shape of the newest data parser: what we read of them, no more."""

import re
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any

from clusterra_contracts.identity import JobId
from clusterra_contracts.job_states import BASE, LIVE
from pydantic import BaseModel, BeforeValidator, ConfigDict

from clusterra_proxy.slurmrestd import hostlist
from clusterra_proxy.slurmrestd.comment import Comment

NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF})
"""Slurm's NO_VAL and INFINITE of 32 and 64 bits, where a plain number stands for "not set"."""


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    return None if value in NO_VALUES else value


def _moment(value: Any) -> Any:
    seconds = _number(value)
    if isinstance(seconds, int):
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    return seconds


Number = Annotated[int | None, BeforeValidator(_number)]
"""A number, or None for Slurm's "not set" and "infinite"."""
Time = Annotated[datetime | None, BeforeValidator(_moment)]
"""A moment given in seconds of the epoch, or None for "never"."""
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
type NullableList[T] = Annotated[tuple[T, ...], BeforeValidator(lambda value: () if value is None else value)]
"""slurmrestd writes null for some lists that are empty."""


_NODES_REQUESTED = re.compile(r"\bnode=(\d+)")


class Record(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Signal(Record):
    """The signal that ended a job."""

    id: Number = None


class ExitCode(Record):
    """How a job's script ended."""

    return_code: Number = None
    signal: Signal = Signal()


class JobRecord(Record):
    """A job, or a task of an array, or all tasks of an array that have not started: slurmctld's `job_info`."""

    job_id: int
    """Slurm's number of this very record; tasks of one array have different ones."""
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: Text = ""
    array_max_tasks: Number = None
    name: Text = ""
    user_id: int | None = None
    """None in accounting, which tells no uid."""
    user_name: Text = ""
    comment: Text = ""
    job_state: tuple[str, ...]
    state_reason: Text = ""
    priority: Number = None
    hold: bool = False
    partition: Text = ""
    nodes: Text = ""
    node_count: Number = None
    """Of a pending job only Slurm's guess: see `min_nodes`."""
    max_nodes: Number = None
    required_nodes: Text = ""
    excluded_nodes: Text = ""
    cpus: Number = None
    tasks: Number = None
    cpus_per_task: Number = None
    minimum_cpus_per_node: Number = None
    memory_per_node: Number = None
    """MiB; 0 for all of a node. With `memory_per_tres` it is the memory per GPU."""
    memory_per_cpu: Number = None
    memory_per_tres: Text = ""
    features: Text = ""
    extra: Text = ""
    """An expression over what the Extra of nodes holds."""
    tres_req_str: Text = ""
    """What the job asks for in all, such as `cpu=4,mem=4G,node=2,gres/gpu=4`."""
    tres_alloc_str: Text = ""
    """What it has been given in all, in the same words."""
    tres_per_job: Text = ""
    tres_per_node: Text = ""
    tres_per_socket: Text = ""
    tres_per_task: Text = ""
    gres_detail: NullableList[str] = ()
    """Of a running job, on each of its nodes in the order of `nodes`, what it was given: `gpu:h100:2(IDX:0-1)`.
    Nothing any more once it is over, although its nodes may still be busy with the clean-up."""
    shared: tuple[str, ...] = ()
    """`none` and `topo`: not with anybody; `user` and `mcs`: with the same user. Always empty in v0.0.45."""
    resv_name: Text = ""
    dependency: Text = ""
    het_job_id: Number = None
    het_job_offset: Number = None
    time_limit: Number = None
    """Minutes."""
    submit_time: Time = None
    eligible_time: Time = None
    start_time: Time = None
    end_time: Time = None
    restart_cnt: int = 0
    exit_code: ExitCode = ExitCode()
    standard_output: Text = ""
    stdout_expanded: Text = ""
    stderr_expanded: Text = ""

    @cached_property
    def id(self) -> JobId:
        """Slurm's spelling: `42`, or `42_7` for a task of an array."""
        if self.array and self.array_task_id is not None:
            return f"{self.array}_{self.array_task_id}"
        return str(self.job_id)

    @property
    def array(self) -> int | None:
        """The id of the array it belongs to."""
        return self.array_job_id or None

    @property
    def is_waiting_array(self) -> bool:
        """Whether this record stands for tasks of an array that have not started."""
        return self.array is not None and self.array_task_id is None

    @cached_property
    def state(self) -> str:
        """The base state."""
        return next((state for state in self.job_state if state in BASE), self.job_state[0])

    @property
    def min_nodes(self) -> int:
        """The fewest nodes it can run on."""
        asked = _NODES_REQUESTED.search(self.tres_req_str)
        return max(int(asked[1]) if asked else self.node_count or 1, 1)

    @property
    def ended(self) -> bool:
        """Whether this run is over; its nodes may still be busy with the clean-up (`COMPLETING`)."""
        return self.state not in LIVE

    @property
    def holds_nodes(self) -> bool:
        """Whether it holds nodes now."""
        return bool(self.nodes) and (self.state in {"RUNNING", "SUSPENDED"} or "COMPLETING" in self.job_state)

    @property
    def requeueing(self) -> bool:
        """Whether a run was given up for another one that has not got its own submit time yet."""
        return self.state == "PENDING" and "COMPLETING" in self.job_state

    @property
    def started_at(self) -> datetime | None:
        """When this run began. A pending record's start is only expected, a cancelled one's is its end."""
        return self.start_time if self.hosts and not self.requeueing and self.state != "PENDING" else None

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The nodes it was given."""
        return hostlist.expand(self.nodes)

    @cached_property
    def parsed_comment(self) -> Comment:
        """What its comment says, which proves nothing."""
        return Comment.parse(self.comment)


class NodeRecord(Record):
    """A node: slurmctld's `node`."""

    name: str
    state: tuple[str, ...] = ()
    cpus: int = 0
    alloc_cpus: int = 0
    real_memory: int = 0
    """MiB, as is `alloc_memory`."""
    alloc_memory: int = 0
    gres: Text = ""
    """Such as `gpu:h100:8(S:0-1)`."""
    gres_used: Text = ""
    """Such as `gpu:h100:3(IDX:0,2-3)`, or `gpu:h100:0(IDX:N/A)`."""
    features: tuple[str, ...] = ()
    extra: Text = ""
    reason: Text = ""
    reason_changed_at: Time = None
    last_busy: Time = None
    slurmd_start_time: Time = None

    @property
    def draining(self) -> bool:
        """Whether it takes no new job."""
        return "DRAIN" in self.state

    @property
    def busy(self) -> bool:
        """Whether Slurm says in any way that it runs something or cleans up after it."""
        occupied = {"ALLOCATED", "MIXED", "COMPLETING"} & set(self.state)
        return bool(occupied or self.alloc_cpus or self.alloc_memory)

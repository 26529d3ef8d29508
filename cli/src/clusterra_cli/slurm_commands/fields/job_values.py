"""What Slurm's commands show of one job of the queue, value by value, from slurmrestd's record of it."""

import os
import time
from dataclasses import dataclass, field

from clusterra_cli.slurm_commands.notation import states, times
from clusterra_cli.slurm_commands.notation.sizes import mebibytes
from clusterra_cli.slurm_commands.records import (
    Record,
    count,
    exit_code,
    infinite,
    number,
    part,
    text,
    texts,
)

NOTHING = "(null)"
TASK_CHARACTERS = 64
"""How much of the tasks of an array is shown, unless SLURM_BITSTR_LEN says otherwise."""
_NO_TASK = "4294967294"
_NO_NODES = frozenset({"PENDING", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "FAILED"})
"""The states for which the reason stands in place of the nodes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One record of slurmrestd's list of jobs: a job, a task of an array, or the tasks that have not started."""

    record: Record
    own_name: str = ""
    """The name of the user where the record has none."""
    now: float = field(default_factory=time.time)
    task: int | None = None
    """One of the tasks that have not started, where each is shown by itself."""

    @property
    def id(self) -> int:
        """Slurm's number of the record."""
        return count(self.record, "job_id")

    @property
    def array_id(self) -> int:
        """The id of the array; 0 for a job without tasks."""
        return count(self.record, "array_job_id")

    @property
    def task_id(self) -> int | None:
        """The number of the task; None for a job without tasks, and for tasks that have not started."""
        return self.task if self.task is not None else number(self.record, "array_task_id")

    @property
    def tasks(self) -> str:
        """The tasks that have not started, such as `0-4%2`."""
        return "" if self.task is not None else text(self.record, "array_task_string")

    @property
    def shown_tasks(self) -> str:
        """The tasks as far as commands show them."""
        limit = os.environ.get("SLURM_BITSTR_LEN", "")
        most = int(limit) if limit.isdecimal() else TASK_CHARACTERS
        tasks, percent, together = self.tasks.partition("%")
        cut = tasks if not most or len(tasks) <= most else tasks[: most - 3].rpartition(",")[0] + ",..."
        return cut + percent + together

    @property
    def full_id(self) -> str:
        """The id as people write it: `12`, `12_3`, `12_[4-9%2]`."""
        if self.array_id and self.task_id is not None:
            return f"{self.array_id}_{self.task_id}"
        if self.array_id and self.tasks:
            return f"{self.array_id}_[{self.shown_tasks}]"
        if het := count(self.record, "het_job_id"):
            return f"{het}+{count(self.record, 'het_job_offset')}"
        return str(self.id)

    @property
    def states(self) -> tuple[str, ...]:
        """The state and its flags."""
        return texts(self.record, "job_state")

    @property
    def state(self) -> str:
        """The state's one name."""
        return states.shown(self.states)

    @property
    def base(self) -> str:
        """The state without its flags."""
        return states.base(self.states)

    @property
    def user(self) -> str:
        """The name of the user, or the number where no name is known."""
        return text(self.record, "user_name") or self.own_name or str(count(self.record, "user_id"))

    @property
    def group(self) -> str:
        """The name of the group, or its number."""
        return text(self.record, "group_name") or str(count(self.record, "group_id"))

    @property
    def elapsed_seconds(self) -> int:
        """For how long it has run, or ran, without the time in which it was suspended."""
        start, end = count(self.record, "start_time"), count(self.record, "end_time")
        if self.base == "PENDING" or not start:
            return 0
        if self.base == "SUSPENDED":
            return count(self.record, "pre_sus_time")
        until = int(self.now) if self.base == "RUNNING" or not end else end
        suspended = count(self.record, "suspend_time")
        if suspended:
            return max(until - suspended, 0) + count(self.record, "pre_sus_time")
        return max(until - start, 0)

    @property
    def limit_minutes(self) -> int | None:
        """The time limit; None where there is none."""
        return number(self.record, "time_limit")

    @property
    def limit(self) -> str:
        """The time limit as squeue writes it."""
        if infinite(self.record, "time_limit"):
            return "UNLIMITED"
        minutes = self.limit_minutes
        return "NOT_SET" if minutes is None else times.span(minutes * times.MINUTE)

    @property
    def left(self) -> str:
        """The time that is left of the limit."""
        if infinite(self.record, "time_limit"):
            return "UNLIMITED"
        minutes = self.limit_minutes
        if minutes is None:
            return "NOT_SET"
        left = minutes * times.MINUTE - self.elapsed_seconds
        return times.span(left) if left >= 0 else times.span(0) if left == 0 else "INVALID"

    def moment(self, name: str, never: str = "N/A") -> str:
        """A moment of the record."""
        seconds = number(self.record, name)
        return times.moment(seconds) if seconds else never

    def text(self, name: str, nothing: str = NOTHING) -> str:
        """A text of the record, or what stands for an empty one."""
        return text(self.record, name) or nothing

    def path(self, name: str) -> str:
        """A path of the record, for one task that has not started with its number in place of Slurm's for none."""
        found = text(self.record, name)
        return found if self.task is None else found.replace(_NO_TASK, str(self.task))

    def count(self, name: str) -> str:
        """A number of the record, 0 where it is not set."""
        return str(count(self.record, name))

    @property
    def reason(self) -> str:
        """Why it waits, or how it ended."""
        described = text(self.record, "state_description")
        return described or text(self.record, "state_reason") or "None"

    @property
    def nodes_or_reason(self) -> str:
        """The nodes, or the reason in parentheses."""
        if self.base in _NO_NODES and "COMPLETING" not in self.states:
            return f"({self.reason})"
        return text(self.record, "nodes")

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return max(count(self.record, "node_count"), 1 if self.base == "PENDING" else 0)

    @property
    def memory(self) -> str:
        """The least memory, per node or per CPU."""
        for name in ("memory_per_cpu", "memory_per_node"):
            value = number(self.record, name)
            if value:
                return mebibytes(value)
        return "0"

    @property
    def shared(self) -> str:
        """Whether others may use its nodes: OK, YES, NO, USER, MCS or TOPO."""
        given = {each.lower() for each in texts(self.record, "shared")}
        named = {"user": "USER", "mcs": "MCS", "oversubscribe": "YES", "topo": "TOPO", "none": "OK"}
        return next((word for name, word in named.items() if name in given), "NO")

    @property
    def exclusive(self) -> str:
        """Whether it has its nodes to itself, or shares them with jobs of one user or label alone."""
        given = {each.lower() for each in texts(self.record, "shared")}
        return next(
            (each.upper() for each in ("user", "mcs", "topo") if each in given), "NODE" if "none" in given else "NO"
        )

    @property
    def exit_code(self) -> str:
        """The exit code and the signal, such as `1:0`."""
        code, signal = exit_code(self.record)
        return f"{code}:{signal}"

    @property
    def resources(self) -> Record:
        """What it holds; empty for a job that waits."""
        return part(self.record, "job_resources")

"""slurmrestd's answers: errors, warnings and content."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from clusterra_proxy.slurmrestd.reading.fields import FirstFew, NullableList, Number, Text, Texts, Time, TimeLimit
from clusterra_proxy.slurmrestd.reading.repair import Readable, Record, Unreadable, read_records
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord

_ROW_ID = re.compile(r"([0-9]{1,10})(?:_([0-9]{1,7}))?(?![0-9])")


class StateRow(Readable):
    """One row of `jobs/state`: `3` is a job, `3_0` is task 0 with record 3, `2_4` is a waiting task of record 2."""

    KEY: ClassVar = "job_id"
    UNKNOWN: ClassVar = {"state": ()}

    job_id: str
    state: Texts
    """Empty when it cannot be read."""

    @cached_property
    def record(self) -> tuple[int, int | None] | None:
        """The number of the record and that of the task; None for an id that is none of Slurm's."""
        match = _ROW_ID.match(self.job_id)
        if match is None:
            return None
        return int(match.group(1)), int(match.group(2)) if match.group(2) else None


class KillStatus(Record):
    """The result for one job of a `DELETE jobs/`. Signalled jobs have none."""

    class Error(Record):
        """Slurm's error number and message; number 0 is no error."""

        code: int = 0
        message: Text = ""

    error: Error = Error()


class User(Record):
    """A user in slurmdbd."""

    name: str
    administrator_level: Texts = ()

    @property
    def privileged(self) -> bool:
        """Whether slurmdbd gives this name rights over other users."""
        return not set(self.administrator_level) <= {"None", "Not Set"}


class ErrorEntry(Record):
    """An error of an answer."""

    description: Text = ""
    error_number: int = 0
    error: Text = ""
    source: Text = ""
    """Where in the request or the answer, such as `#/job/nodes/`, or which function of Slurm."""


class WarningEntry(Record):
    """A warning of an answer."""

    description: Text = ""


class SlurmVersion(Record):
    """The Slurm release that answers."""

    release: Text = ""
    cluster: Text = ""
    """The ClusterName."""


class Meta(Record):
    """Metadata of an answer."""

    slurm: SlurmVersion = SlurmVersion()


class Answer(Record):
    """The fields of every answer."""

    RECORDS: ClassVar[str] = ""
    """The field with the records of a list, which are read one by one if need be."""
    RECORD: ClassVar[type[Readable]] = Readable
    """The model of these records."""
    KIND: ClassVar[str] = ""
    """What these records are, as metrics and logs name it."""
    THREAD: ClassVar[bool] = False
    """Whether reading takes so long that it is done in a thread."""

    errors: Annotated[NullableList[ErrorEntry], FirstFew] = ()
    warnings: Annotated[NullableList[WarningEntry], FirstFew] = ()
    meta: Meta = Meta()
    unreadable: tuple[Unreadable, ...] = ()
    """The records of which something could not be read."""

    @property
    def carried_out(self) -> bool:
        """Whether the answer proves that the request was carried out, whatever its status and errors say."""
        return False

    @property
    def unidentified(self) -> int:
        """The number of records that were dropped, because their identity could not be read."""
        return sum(not each.id for each in self.unreadable)

    @classmethod
    def read_by_record(cls, content: Any) -> Self:
        """Read an answer whose records cannot all be read. Raises ValueError when anything else cannot be read."""
        items = content.get(cls.RECORDS) if isinstance(content, dict) and cls.RECORDS else None
        if not isinstance(items, Sequence) or isinstance(items, str):
            raise ValueError("the answer has no list of records")  # noqa: TRY004 - as for all invalid answers
        records, unreadable = read_records(cls.RECORD, items)
        return cls.model_validate(content | {cls.RECORDS: records, "unreadable": unreadable})


class States(Answer):
    """Answer to `GET jobs/state/`."""

    RECORDS: ClassVar = "jobs"
    RECORD: ClassVar = StateRow
    KIND: ClassVar = "job_state"

    jobs: NullableList[StateRow] = ()


class Jobs(Answer):
    """Answer to `GET jobs/` and `GET job/{id}`. `last_update` is the `update_time` of the next query."""

    RECORDS: ClassVar = "jobs"
    RECORD: ClassVar = JobRecord
    KIND: ClassVar = "job"

    jobs: NullableList[JobRecord] = ()
    last_update: Number = None


class Nodes(Answer):
    """Answer to `GET nodes/` and `GET node/{name}`."""

    RECORDS: ClassVar = "nodes"
    RECORD: ClassVar = NodeRecord
    KIND: ClassVar = "node"

    nodes: NullableList[NodeRecord] = ()
    last_update: Number = None


class FutureNode(Readable):
    """A node record as listed with `flags=FUTURE`: the resources that its node would have."""

    KEY: ClassVar = "name"

    name: str
    state: Texts = ()
    gres: Text = ""
    extra: Text = ""

    @property
    def future(self) -> bool:
        """Whether no slurmd has registered under this record."""
        return "FUTURE" in self.state

    @property
    def dynamic(self) -> bool:
        """Whether a request created the record, not slurm.conf."""
        return "DYNAMIC_NORM" in self.state


class FutureNodes(Answer):
    """Answer to `GET nodes/?flags=FUTURE` and `GET node/{name}?flags=FUTURE`."""

    RECORDS: ClassVar = "nodes"
    RECORD: ClassVar = FutureNode
    KIND: ClassVar = "placeholder"

    nodes: NullableList[FutureNode] = ()


class PartitionDefaults(Record):
    """Defaults of a partition: `DefMemPerCPU=`, `DefMemPerNode=` and `DefaultTime=`.

    They are for jobs that request no memory or no time limit. slurmrestd does not report those of the whole cluster.
    """

    partition_memory_per_cpu: Number = None
    """MiB; 0 and None: no default."""
    partition_memory_per_node: Number = None
    time: TimeLimit = None
    """Minutes."""


class Partition(Record):
    """A partition of a cluster."""

    name: str
    defaults: PartitionDefaults = PartitionDefaults()


class Partitions(Answer):
    """Answer to `GET partitions/`."""

    partitions: NullableList[Partition] = ()


class SubmitAnswer(Answer):
    """Answer to `POST job/submit`."""

    job_id: int = 0

    @property
    def carried_out(self) -> bool:
        """Whether there is a job: slurmrestd also answers 500 to a submit that it has carried out."""
        return self.job_id > 0


class KillAnswer(Answer):
    """Answer to `DELETE jobs/`."""

    status: NullableList[KillStatus] = ()


class RequeueStatus(Record):
    """The result for one job of a `POST jobs/requeue`; number 0 is no error."""

    step_id: Text = ""
    error: Text = ""
    error_code: int = 0


class RequeueAnswer(Answer):
    """Answer to `POST jobs/requeue`: one list for each selection. A single failed selection is an error instead."""

    status: NullableList[NullableList[RequeueStatus]] = ()


class Ping(Record):
    """Whether one slurmctld responds."""

    hostname: Text = ""
    responding: bool = False


class Pings(Answer):
    """Answer to `GET ping/`."""

    pings: NullableList[Ping] = ()


class Statistics(Record):
    """What slurmctld says about itself."""

    req_time: Time = None
    """When it answered, by its own clock."""


class Diagnostics(Answer):
    """Answer to `GET diag/`."""

    statistics: Statistics = Statistics()


class Users(Answer):
    """Answer to `GET slurmdb users/`."""

    users: NullableList[User] = ()

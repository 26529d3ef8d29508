"""What slurmrestd answers: errors and warnings, and what was asked for."""

from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord, NullableList, Number, Record, Text


class StateRow(Record):
    """One row of `jobs/state`: `3` a job, `3_0` task 0 whose record is 3, `2_4` a waiting task of record 2."""

    job_id: str
    state: tuple[str, ...]


class KillStatus(Record):
    """What became of one job of a `DELETE jobs/`; jobs that were signalled have none."""

    class Error(Record):
        """Slurm's error, 0 for none."""

        code: int = 0
        message: Text = ""

    error: Error = Error()


class User(Record):
    """A user of slurmdbd."""

    name: str
    administrator_level: tuple[str, ...] = ()

    @property
    def privileged(self) -> bool:
        """Whether the name alone gives rights over others."""
        return not set(self.administrator_level) <= {"None", "Not Set"}


class ErrorEntry(Record):
    """One of an answer's errors."""

    description: Text = ""
    error_number: int = 0
    error: Text = ""


class WarningEntry(Record):
    """One of an answer's warnings."""

    description: Text = ""


class SlurmVersion(Record):
    """Which Slurm answers."""

    release: Text = ""


class Meta(Record):
    """About the answer."""

    slurm: SlurmVersion = SlurmVersion()


class Answer(Record):
    """What every answer holds."""

    errors: NullableList[ErrorEntry] = ()
    warnings: NullableList[WarningEntry] = ()
    meta: Meta = Meta()


class States(Answer):
    """`GET jobs/state/`."""

    jobs: NullableList[StateRow] = ()


class Jobs(Answer):
    """`GET jobs/` and `GET job/{id}`; `last_update` is for the next question (`update_time`)."""

    jobs: NullableList[JobRecord] = ()
    last_update: Number = None


class Nodes(Answer):
    """`GET nodes/` and `GET node/{name}`."""

    nodes: NullableList[NodeRecord] = ()
    last_update: Number = None


class FutureNode(Record):
    """A node with what it would have, as a list with `flags=FUTURE` shows it."""

    name: str
    state: tuple[str, ...] = ()
    gres: Text = ""
    extra: Text = ""

    @property
    def future(self) -> bool:
        """Whether no slurmd stands for it."""
        return "FUTURE" in self.state

    @property
    def dynamic(self) -> bool:
        """Whether it was made by a request, not by slurm.conf."""
        return "DYNAMIC_NORM" in self.state


class FutureNodes(Answer):
    """`GET nodes/?flags=FUTURE` and `GET node/{name}?flags=FUTURE`."""

    nodes: NullableList[FutureNode] = ()


class SubmitAnswer(Answer):
    """`POST job/submit`."""

    job_id: int = 0


class KillAnswer(Answer):
    """`DELETE jobs/`."""

    status: NullableList[KillStatus] = ()


class Ping(Record):
    """How one slurmctld answers."""

    responding: bool = False


class Pings(Answer):
    """`GET ping/`."""

    pings: NullableList[Ping] = ()


class Users(Answer):
    """`GET slurmdb users/`."""

    users: NullableList[User] = ()

"""The keys of the ledger's table.

| partition | sort key | item |
|---|---|---|
| `<cluster>#worker#<name>` | `fact#<id>` | one fact about the workers of this name |
| `<cluster>#worker#<name>` | `fact#~<job id>#<run>` | what is told of one run on them: start, end, requeue |
| `<cluster>#job#<number>` | `<job id>#<run>` | one run of a job or an array task |
| `<cluster>#open` | `<name>` | workers whose lines are not written yet; each new fact makes a new version |
| `<cluster>#day#<day>` | `<name>#<chunk>` | the lines of the workers of this name on this day |
| `<cluster>#days#<name>` | `days` | on which days lines of the workers of this name were ever written |
| `<cluster>#settled` | `count` | how often lines were written |
"""

from datetime import date

from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

LEDGER = Table("ledger")
USE = TableUse(
    LEDGER,
    "what workers and jobs cost: the facts, and the lines of each day",
    frozenset({"get", "put", "update", "delete", "query"}),
    items_expire=True,
)

FACTS = "fact#"
"""The beginning of the sort keys of facts."""
_RUN_FACTS = f"{FACTS}~"


def facts_partition(ref: ClusterRef, worker: str) -> str:
    """The facts about the workers of one name."""
    return f"{ref.key}#worker#{worker}"


def fact_key(ref: ClusterRef, worker: str, fact_id: str) -> Key:
    """One fact."""
    return Key(facts_partition(ref, worker), f"{FACTS}{fact_id}")


def job_of_fact(key: Key) -> JobId | None:
    """The job of what is told of a run; None for a fact about a worker."""
    return key.sk.removeprefix(_RUN_FACTS).partition("#")[0] if key.sk.startswith(_RUN_FACTS) else None


def run_fact_key(ref: ClusterRef, worker: str, job_id: JobId, submitted_seconds: int, restarts: int) -> Key:
    """What is told of one run on a worker. It sorts after the facts about the worker itself: they are read first."""
    return Key(facts_partition(ref, worker), f"{_RUN_FACTS}{_run(job_id, submitted_seconds, restarts)}")


def runs_partition(ref: ClusterRef, job_id: JobId) -> str:
    """The runs of a job, or of all tasks of an array."""
    return f"{ref.key}#job#{job_id.partition('_')[0]}"


def run_key(ref: ClusterRef, job_id: JobId, submitted_seconds: int, restarts: int) -> Key:
    """One run. The runs of a job sort in their order."""
    return Key(runs_partition(ref, job_id), _run(job_id, submitted_seconds, restarts))


def runs_until(job_id: JobId, run: Key) -> Between:
    """The runs of a job until one of them, inclusive."""
    return Between(f"{job_id}#", run.sk)


def runs_from(job_id: JobId, run: Key) -> Between:
    """The runs of a job from one of them on, inclusive."""
    return Between(run.sk, f"{job_id}#~")


def _run(job_id: JobId, submitted_seconds: int, restarts: int) -> str:
    return f"{job_id}#{submitted_seconds:011d}.{restarts:06d}"


def open_partition(ref: ClusterRef) -> str:
    """The names of the workers whose lines are not written yet."""
    return f"{ref.key}#open"


def open_key(ref: ClusterRef, worker: str) -> Key:
    """One such name."""
    return Key(open_partition(ref), worker)


def day_partition(ref: ClusterRef, day: date) -> str:
    """The written lines of one day."""
    return f"{ref.key}#day#{day.isoformat()}"


def lines_key(ref: ClusterRef, day: date, worker: str, chunk: int) -> Key:
    """Some lines of one worker name on one day."""
    return Key(day_partition(ref, day), f"{worker}#{chunk:04d}")


def days_key(ref: ClusterRef, worker: str) -> Key:
    """On which days lines of the workers of one name were ever written."""
    return Key(f"{ref.key}#days#{worker}", "days")


def settled_key(ref: ClusterRef) -> Key:
    """The count of writings of lines."""
    return Key(f"{ref.key}#settled", "count")

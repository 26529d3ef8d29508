"""Whom an event is about, and whether they want a mail about it. Pure.

The words are those of sbatch's `--mail-type`, which the choices of a person are translated to: `END` is any end, and
`FAIL` an end that is no success and that nobody caused. As with Slurm, an array is told as a whole, unless
`ARRAY_TASKS` is asked for; the first failure of a task is told at once.
"""

from collections.abc import Collection
from dataclasses import dataclass

from clusterra_contracts.events import BudgetFact, DigestFact, Fact, JobFact, RunFact, SessionFact
from clusterra_contracts.notifications import Choices

RUN_ENDS = frozenset({"run.completed", "run.failed", "run.cancelled"})
_JOB_TYPES: dict[str, frozenset[str]] = {
    "job.running": frozenset({"BEGIN"}),
    "job.requeued": frozenset({"REQUEUE"}),
    "job.completed": frozenset({"END"}),
    "job.cancelled": frozenset({"END"}),
    "job.failed": frozenset({"END", "FAIL"}),
    "job.timeout": frozenset({"END", "FAIL", "TIME_LIMIT"}),
}
"""The mail types that include a kind of event."""
KINDS: tuple[str, ...] = (*_JOB_TYPES, "job.digest", "session.ready", *sorted(RUN_ENDS), "budget.threshold")
"""The kinds that mails can be about."""
_AT_ONCE = frozenset({"FAIL", "TIME_LIMIT"})
"""The mail types that include an event of one task of an array."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom an event is about: the user with this name and uid, or the admins of the tenant."""

    user: str = ""
    uid: int | None = None


def audience_of(fact: Fact) -> Audience | None:
    """Whom a fact is about; None where no mail can be about it."""
    match fact:
        case JobFact() if fact.kind in _JOB_TYPES:
            return _owner(fact.user, fact.uid)
        case DigestFact() | SessionFact():
            return _owner(fact.user, fact.uid)
        case RunFact() if fact.kind in RUN_ENDS:
            return _owner(fact.user, fact.uid)
        case BudgetFact():
            return _owner(fact.name, None) if fact.scope == "user" else Audience()
        case _:
            return None


def _owner(user: str, uid: int | None) -> Audience | None:
    # What has no owner is not the admins' own.
    return Audience(user, uid) if user else None


def is_wanted(fact: Fact, choices: Choices) -> bool:
    """Whether somebody whom a fact is about wants a mail about it."""
    match fact:
        case JobFact():
            return _job_is_wanted(fact, _types(fact.mail, choices))
        case DigestFact():
            return _digest_is_wanted(fact, _types(fact.mail, choices))
        case SessionFact():
            return choices.sessions_ready
        case RunFact():
            return choices.runs_ended
        case BudgetFact():
            return choices.budgets
        case _:
            return False


def _types(asked: Collection[str], choices: Choices) -> frozenset[str]:
    chosen = {"BEGIN": choices.jobs_started, "END": choices.jobs_ended, "FAIL": choices.jobs_failed}
    return frozenset(asked) | {name for name, wanted in chosen.items() if wanted}


def _job_is_wanted(fact: JobFact, types: frozenset[str]) -> bool:
    included = _JOB_TYPES.get(fact.kind, frozenset())
    if "_" in fact.job_id and "ARRAY_TASKS" not in types:
        included &= _AT_ONCE
    return bool(included & types)


def _digest_is_wanted(fact: DigestFact, types: frozenset[str]) -> bool:
    happened = frozenset[str]().union(
        *(_JOB_TYPES.get(kind, frozenset()) for kind, count in fact.counts.items() if count)
    )
    if "ARRAY_TASKS" not in types:
        # The array as a whole begins with its first digest, and ends with that after which no task is left.
        over = fact.tasks_left in (0, None)
        happened -= {name for name, known in (("BEGIN", fact.number == 1), ("END", over)) if not known}
    return bool(happened & types)

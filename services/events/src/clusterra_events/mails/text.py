"""What a mail says: plain text about one event. Pure.

Whoever submits a job chooses its name, and it may be hostile: no control character and no mark that changes the
direction of writing is left in a mail, and long texts are cut off.
"""

import unicodedata
from datetime import datetime
from urllib.parse import quote

from clusterra_contracts.events import BudgetFact, DigestFact, Event, JobFact, RunFact, SessionFact
from clusterra_contracts.identity import ClusterRef

from clusterra_events.durations import duration

MOST_IN_SUBJECT = 60
MOST_IN_LINE = 300
_VERBS = {
    "job.running": "started",
    "job.requeued": "was requeued",
    "job.completed": "completed",
    "job.failed": "failed",
    "job.cancelled": "was cancelled",
    "job.timeout": "reached its time limit",
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "was cancelled",
}
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of characters that are not seen, or that change how others are shown."""

type Line = tuple[str, str]
"""What a line tells, and its text."""


def shown(text: str, most: int = MOST_IN_LINE) -> str:
    """A text in one line, without anything that is not seen, cut off after `most` characters."""
    # What is cut off need not be looked at: a name may have a million characters.
    clean = "".join(" " if unicodedata.category(each) in _UNSEEN else each for each in text[: 2 * most])
    words = " ".join(clean.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def subject_of(ref: ClusterRef, event: Event) -> str:
    """The subject, such as `[acme/main] Job 42 align: failed after 3 min 20 s (OUT_OF_MEMORY)`."""
    # The email package would decode an encoded word (RFC 2047) that somebody has written into a name.
    return f"[{ref.tenant}/{ref.cluster}] {_what_happened(event)}".replace("=?", "= ?")


def body_of(ref: ClusterRef, event: Event, public_url: str, further: str = "") -> str:
    """The text. `public_url`: the console's address; empty: there is no link. `further`: a last remark."""
    lines = [(name, shown(text)) for name, text in (*_lines(event), ("Cluster", f"{ref.tenant}/{ref.cluster}")) if text]
    width = max(len(name) for name, _ in lines) + 1
    table = "\n".join(f"{name + ':':<{width}} {text}" for name, text in lines)
    path = _path(event)
    link = f"\n\n{public_url.rstrip('/')}/c/{quote(ref.cluster, safe='')}/{path}" if public_url else ""
    said = f"\n\n{further}" if further else ""
    return f"{_what_happened(event)}\n\n{table}{link}{said}\n\n-- \n{_why(event)}\n"


def _what_happened(event: Event) -> str:
    match event.data:
        case JobFact() as fact:
            state = f" ({shown(fact.state, 40)})" if fact.kind == "job.failed" else ""
            return f"Job {_named(fact.job_id, fact.name)}: {_VERBS.get(fact.kind, fact.kind)}{_after(fact)}{state}"
        case DigestFact() as fact:
            return f"Array {_named(fact.job_id, fact.name)}: {_counted(fact)}"
        case SessionFact() as fact:
            return f"Session {_named(fact.job_id, fact.name)}: ready"
        case RunFact() as fact:
            return f"Run {_named(fact.run_id, fact.name)}: {_VERBS.get(fact.kind, fact.kind)}"
        case BudgetFact() as fact:
            whose = "the workspace" if fact.scope == "tenant" else f"{fact.scope} {shown(fact.name, MOST_IN_SUBJECT)}"
            return f"Budget of {whose}: {'forecast at ' if fact.measure == 'forecast' else ''}{fact.percent}%"
        case _:
            return shown(event.kind)


def _named(entity: str, name: str) -> str:
    return f"{shown(entity, 64)} {shown(name, MOST_IN_SUBJECT)}".rstrip()


def _after(fact: JobFact) -> str:
    if fact.started_at is None or fact.ended_at is None:
        return ""
    return f" after {duration(fact.ended_at - fact.started_at)}"


def _counted(fact: DigestFact) -> str:
    """How many tasks of an array ended so far."""
    words = {"job.completed": "completed", "job.failed": "failed", "job.timeout": "reached the time limit"}
    words["job.cancelled"] = "cancelled"
    counts = {kind: max(fact.totals.get(kind, 0), fact.counts.get(kind, 0)) for kind in words}
    told = [f"{count} {words[kind]}" for kind, count in counts.items() if count]
    left = f", {fact.tasks_left} left" if fact.tasks_left else ""
    return (", ".join(told) or "its tasks started") + left


def _lines(event: Event) -> list[Line]:
    match event.data:
        case JobFact() as fact:
            code = "" if fact.exit_code is None else str(fact.exit_code)
            return [
                ("Job", _named(fact.job_id, fact.name)),
                ("State", fact.state),
                ("Reason", fact.reason),
                ("Exit code", code),
                ("Owner", fact.user),
                ("Account", fact.account),
                ("Submitted", _time(fact.submitted_at)),
                ("Started", _time(fact.started_at)),
                ("Ended", _time(fact.ended_at)),
                ("Nodes", ", ".join(fact.nodes[:10])),
            ]
        case DigestFact() as fact:
            tasks = ", ".join(fact.failed_tasks)
            return [
                ("Array", _named(fact.job_id, fact.name)),
                ("Tasks", _counted(fact)),
                ("Newly failed", tasks),
                ("Owner", fact.user),
                ("From", _time(fact.since)),
                ("Until", _time(fact.until)),
            ]
        case SessionFact() as fact:
            return [("Session", _named(fact.job_id, fact.name)), ("Owner", fact.user), ("Ready", _time(event.time))]
        case RunFact() as fact:
            steps = ", ".join(f"{count} {state}" for state, count in fact.steps.items())
            return [
                ("Run", _named(fact.run_id, fact.name)),
                ("Steps", steps),
                ("Failed step", fact.failed_step),
                ("Owner", fact.user),
                ("Ended", _time(event.time)),
            ]
        case BudgetFact() as fact:
            return [
                ("Month", fact.month),
                ("Limit", _usd(fact.limit_micro_usd)),
                ("Forecast" if fact.measure == "forecast" else "Used", _usd(fact.micro_usd)),
            ]
        case _:
            return [("Event", event.kind)]


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _usd(micro: int) -> str:
    return f"{micro / 1_000_000:,.2f} USD"


def _path(event: Event) -> str:
    """Where the console shows what an event is about, within its cluster."""
    match event.data:
        case RunFact() as fact:
            return f"workflows/runs/{quote(fact.run_id, safe='')}"
        case BudgetFact():
            return "costs"
        case _:
            return f"jobs/{quote(event.subject, safe='')}"


def _why(event: Event) -> str:
    if isinstance(event.data, JobFact | DigestFact) and event.data.mail:
        return (
            f"You get this mail because the job has --mail-type={','.join(event.data.mail)}. Submit it without that"
            " option, or with --mail-type=NONE, to get none."
        )
    return "You get this mail because you chose it. `clusterra notifications set` ends it."

"""The message of Slack that tells an event to people.

Names and reasons are what users wrote. All of it is `plain_text`, in which Slack finds no mention, link or markup, with
`&`, `<` and `>` escaped all the same, and cut to Slack's limits.
"""

from collections.abc import Iterable
from typing import Any

from clusterra_contracts.events import (
    AdminFact,
    BudgetFact,
    ConditionFact,
    DigestFact,
    Event,
    FileFact,
    JobActionFact,
    JobFact,
    MachineSize,
    MisclassifiedFact,
    NewerFact,
    NodeFact,
    PriceFact,
    RunFact,
    ScaleFact,
    SessionFact,
    StagingFact,
    WorkerFact,
)
from clusterra_contracts.identity import ClusterRef

from clusterra_events.durations import duration

MAX_TITLE = 150
"""Slack's limit of a header."""
MAX_TEXT = 3000
"""Slack's limit of a section's text."""
MAX_LINE = 300
MAX_LINES = 12
MAX_NAMED = 10
"""How many tasks, files or changes a message names."""

type Told = tuple[str, list[str]]
"""A title, and the lines below it."""


def message_of(ref: ClusterRef, event: Event) -> dict[str, Any]:
    """The body of the request that tells an event of a cluster."""
    title, lines = _told(event)
    shown = [cut(line, MAX_LINE) for line in lines if line][:MAX_LINES]
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(cut(title, MAX_TITLE))}]
    if shown:
        blocks.append({"type": "section", "text": _plain(_whole(shown))})
    where = f"Cluster {ref.cluster} · {event.time:%Y-%m-%d %H:%M:%S} UTC · {event.kind}"
    blocks.append({"type": "context", "elements": [_plain(cut(where, MAX_LINE))]})
    # `text` is what a notification shows.
    return {
        "text": cut(title, MAX_TITLE),
        "blocks": blocks,
        "mrkdwn": False,
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }


def cut(text: str, most: int) -> str:
    """A text on one line with `&`, `<` and `>` escaped, and at most so many characters then; never empty."""
    parts: list[str] = []
    left = most
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split()) or "-"
    whole = [{"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(each, each) for each in line]
    if sum(map(_units, whole)) <= most:
        return "".join(whole)
    for each in whole:
        if _units(each) > left - 1:
            break
        parts.append(each)
        left -= _units(each)
    return "".join(parts).rstrip() + "…"


def _units(text: str) -> int:
    """The length as JavaScript counts it, which is never less than that in characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _whole(lines: Iterable[str]) -> str:
    text = ""
    for line in lines:
        longer = f"{text}\n{line}" if text else line
        if _units(longer) > MAX_TEXT:
            break
        text = longer
    return text


def _told(event: Event) -> Told:
    match fact := event.data:
        case JobFact():
            return _job(fact)
        case RunFact():
            return _run(fact)
        case DigestFact():
            return _digest(fact)
        case JobActionFact():
            verb = fact.kind.partition(".")[2]
            return f"Job {fact.job_id}: {verb} by {fact.actor}", [_named(fact.name), _owner(fact.user), fact.detail]
        case StagingFact():
            word = "inputs" if fact.direction == "in" else "outputs"
            how = f"{fact.failed_files} files were not copied" if fact.state == "failed" else "all are copied"
            counted = f"{fact.files} files, {fact.bytes} bytes"
            return f"Job {fact.job_id}: {word}: {how}", [_named(fact.name), _owner(fact.user), counted]
        case SessionFact():
            return f"Session {fact.job_id} is ready", [_named(fact.name), _owner(fact.user)]
        case FileFact():
            rest = len(fact.paths) - MAX_NAMED
            more = f"and {rest} more" if rest > 0 else ""
            to = f"To: {fact.destination}" if fact.destination else ""
            title = f"{len(fact.paths)} files {fact.kind.partition('.')[2]} by {fact.actor}"
            return title, [to, *fact.paths[:MAX_NAMED], more]
        case _:
            return _not_of_a_user(event)


def _not_of_a_user(event: Event) -> Told:
    match fact := event.data:
        case NodeFact():
            size = "" if fact.size is None else f"Size: {_size(fact.size)}"
            states = f"States: {', '.join(fact.states)}" if fact.states else ""
            return f"Node {fact.node}: {_words(fact.kind)}", [_because(fact.reason), states, size]
        case MisclassifiedFact():
            lines = [f"Shape: {fact.shape}", f"Expected: {_size(fact.expected)}", f"Found: {_size(fact.actual)}"]
            return f"Node {fact.node} has not the resources of its shape", lines
        case WorkerFact():
            return f"Worker {fact.worker}: {_words(fact.kind)}", [f"Shape: {fact.shape}", _because(fact.reason)]
        case PriceFact():
            price = fact.micro_usd_per_hour
            cost = "unknown" if price is None else f"{price / 1e6:.4f} USD an hour"
            return f"Worker {fact.worker}: price {cost}", [f"Shape: {fact.shape}"]
        case ScaleFact():
            changes = [
                f"{each.shape}: {each.replicas_before} → {each.replicas_after} workers: {each.reason}"
                for each in fact.changes[:MAX_NAMED]
            ]
            return "The number of workers changes", changes
        case ConditionFact():
            how = "is degraded" if fact.kind == "cluster.degraded" else "has recovered"
            title = f"The cluster {how}: {fact.reason.replace('_', ' ')}"
            return title, [fact.message, f"For {duration(event.time - fact.since)}"]
        case BudgetFact():
            what = "The costs have reached" if fact.measure == "actual" else "The costs will reach"
            costs = f"{fact.micro_usd / 1e6:.2f} of {fact.limit_micro_usd / 1e6:.2f} USD"
            return f"{what} {fact.percent} % of the budget of {fact.subject}", [f"{costs} in {fact.month}"]
        case AdminFact():
            changed = f"{fact.before} → {fact.after}" if fact.before or fact.after else ""
            family, _, verb = fact.kind.partition(".")
            title = f"{family} {verb.replace('_', ' ')}: {fact.subject}".capitalize()
            return title if fact.kind != "webhook.test" else "This is a test of Clusterra", [
                f"By {fact.actor}",
                fact.detail,
                changed,
            ]
        case NewerFact() | _:
            return f"{event.kind}: {event.subject}", []


def _job(fact: JobFact) -> Told:
    took = ""
    if fact.started_at is not None and fact.ended_at is not None:
        took = f"Ran for {duration(fact.ended_at - fact.started_at)}"
    elif fact.started_at is not None:
        took = f"Waited for {duration(fact.started_at - fact.submitted_at)}"
    code = "" if fact.exit_code is None else f"Exit code {fact.exit_code}"
    gpus = sum(fact.gpus.values())
    size = ", ".join(
        each
        for each in (f"{fact.cpus} CPUs" if fact.cpus else "", f"{gpus} GPUs" if gpus else "", ", ".join(fact.nodes))
        if each
    )
    words = {"job.timeout": "reached its time limit"}.get(fact.kind, fact.kind.partition(".")[2])
    lines = [_named(fact.name), _because(fact.reason), code, took, _owner(fact.user), f"State: {fact.state}"]
    return f"Job {fact.job_id} {words}", [*lines, f"Partition: {fact.partition}", f"On: {size}" if size else ""]


def _run(fact: RunFact) -> Told:
    steps = ", ".join(f"{count} {state}" for state, count in fact.steps.items())
    failed = f"Failed step: {fact.failed_step}" if fact.failed_step else ""
    title = f"Workflow run {fact.run_id} {fact.kind.partition('.')[2]}"
    return title, [_named(fact.name), failed, f"Steps: {steps}" if steps else "", _owner(fact.user)]


def _digest(fact: DigestFact) -> Told:
    counts = ", ".join(f"{count} {kind.partition('.')[2]}" for kind, count in fact.counts.items())
    totals = ", ".join(f"{count} {kind.partition('.')[2]}" for kind, count in fact.totals.items())
    rest = len(fact.failed_tasks) - MAX_NAMED
    failed = ", ".join(fact.failed_tasks[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    left = "" if fact.tasks_left is None else f"Tasks left: {fact.tasks_left}"
    named = f"Failed: {failed}" if fact.failed_tasks else ""
    lines = [_named(fact.name), named, f"So far: {totals}" if totals else "", left, _owner(fact.user)]
    return f"Array {fact.job_id}: {counts or 'no change'}", [*lines, f"In {duration(fact.until - fact.since)}"]


def _words(kind: str) -> str:
    return kind.partition(".")[2].replace("_", " ")


def _named(name: str) -> str:
    return f"Name: {name}" if name else ""


def _owner(user: str) -> str:
    return f"Owner: {user}"


def _because(reason: str) -> str:
    return f"Reason: {reason}" if reason else ""


def _size(size: MachineSize) -> str:
    gpus = f", {size.gpus} GPUs {size.gpu_model}".rstrip() if size.gpus else ""
    return f"{size.cpus} CPUs, {size.memory_mib} MiB{gpus}"

"""Replays a decision log: makes its decisions again and reports differences."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from clusterra_scaler.decisions.record import RECORD, DecisionOutput, DecisionRecord
from pydantic import TypeAdapter, ValidationError

_DECIDED: TypeAdapter[DecisionOutput] = TypeAdapter(DecisionOutput)
_NAMED_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a decision."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that the replayed decision has different."""

    line: int
    cluster: str
    decided_at: str
    path: str
    """Where in the decision, such as `state.targets[0].replicas`."""
    logged: Any
    again: Any
    """`logged` and `again` are null where one of the decisions has no such value."""


@dataclass(slots=True)
class Replay:
    """The outcome of a replay."""

    decisions: int = 0
    different: int = 0
    """The number of decisions with a difference."""
    differences: list[Difference] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)


def replay(lines: Iterable[bytes], report: Callable[[Difference], None]) -> Replay:
    """Make each line's decision again and `report` each difference as it is found. Bad lines are left out."""
    done = Replay()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _replay_line(number, line, done, report)
    return done


def _replay_line(number: int, line: bytes, done: Replay, report: Callable[[Difference], None]) -> None:
    try:
        record = RECORD.validate_json(line)
    except ValidationError as error:
        done.bad.append(BadLine(number, _summary(error)))
        return
    done.decisions += 1
    found = [Difference(number, record.cluster.key, *where) for where in _differences(record)]
    done.different += bool(found)
    done.differences += found
    for each in found:
        report(each)


def _differences(record: DecisionRecord) -> Iterator[tuple[str, str, Any, Any]]:
    at = record.given.observation.now.isoformat()
    try:
        again = DecisionOutput.of(record.given.decide())
    except Exception as error:  # an exception is this planner's answer, too
        yield at, "", "a decision", f"{type(error).__name__}: {error}"
        return
    if again == record.decided:
        return
    logged, now = (_DECIDED.dump_python(each, mode="json") for each in (record.decided, again))
    for path, before, after in _unequal(logged, now, ""):
        yield at, path, before, after


def _unequal(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two JSON values differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _unequal(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            before, after = (each[index] if index < len(each) else None for each in (one, other))
            yield from _unequal(before, after, f"{path}[{index}]")
    elif one != other:
        yield path, one, other


def _summary(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    named = "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}".removeprefix(": ") for each in problems[:_NAMED_PROBLEMS]
    )
    return named if len(problems) <= _NAMED_PROBLEMS else f"{named}; and {len(problems) - _NAMED_PROBLEMS} more"

"""Deciding again what a decision log holds, and what comes out differently."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from clusterra_scaler.decision_record import RECORD, DecisionOutput, DecisionRecord
from pydantic import TypeAdapter, ValidationError

_DECIDED: TypeAdapter[DecisionOutput] = TypeAdapter(DecisionOutput)
_NAMED_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no decision."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that was decided in another way."""

    line: int
    cluster: str
    decided_at: str
    path: str
    """Where in the decision, such as `state.targets[0].replicas`."""
    logged: Any
    again: Any
    """Null where there is nothing."""


@dataclass(slots=True)
class Replay:
    """What became of a file of the log."""

    decisions: int = 0
    different: int = 0
    """Decisions with a difference."""
    differences: list[Difference] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)


def replay(lines: Iterable[bytes], different: Callable[[Difference], None]) -> Replay:
    """Decide each line again; `different` is told of each difference when it is found. Bad lines are left out."""
    done = Replay()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _replay_line(number, line, done, different)
    return done


def _replay_line(number: int, line: bytes, done: Replay, different: Callable[[Difference], None]) -> None:
    try:
        record = RECORD.validate_json(line)
    except ValidationError as error:
        done.bad.append(BadLine(number, _in_words(error)))
        return
    done.decisions += 1
    found = [Difference(number, record.cluster.key, *where) for where in _differences(record)]
    done.different += bool(found)
    done.differences += found
    for each in found:
        different(each)


def _differences(record: DecisionRecord) -> Iterator[tuple[str, str, Any, Any]]:
    at = record.given.observation.now.isoformat()
    try:
        again = DecisionOutput.of(record.given.decide())
    except Exception as error:  # whatever it is, it is what this planner makes of what it was given
        yield at, "", "a decision", f"{type(error).__name__}: {error}"
        return
    if again == record.decided:
        return
    logged, now = (_DECIDED.dump_python(each, mode="json") for each in (record.decided, again))
    for path, before, after in _unequal(logged, now, ""):
        yield at, path, before, after


def _unequal(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The places at which two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _unequal(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            before, after = (each[index] if index < len(each) else None for each in (one, other))
            yield from _unequal(before, after, f"{path}[{index}]")
    elif one != other:
        yield path, one, other


def _in_words(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    named = "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}".removeprefix(": ") for each in problems[:_NAMED_PROBLEMS]
    )
    return named if len(problems) <= _NAMED_PROBLEMS else f"{named}; and {len(problems) - _NAMED_PROBLEMS} more"

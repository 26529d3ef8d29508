"""Orders the jobs of a workflow by their dependencies. Without I/O."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


class InvalidDependencies(ValueError):
    """The jobs of a workflow cannot be ordered. The message tells its author why."""


def dependencies(steps: Sequence[tuple[str, tuple[str, ...] | None]]) -> dict[str, tuple[str, ...]]:
    """The ids of all jobs in topological order, each with the ids of the jobs that it depends on.

    A job whose list is None depends on the job before it. Raises InvalidDependencies for a repeated id, a dependency on
    an unknown job, and a cycle.
    """
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for step_id, depends_on in steps:
        if step_id in found:
            raise InvalidDependencies(f"there are two steps {step_id}")
        found[step_id] = before if depends_on is None else tuple(dict.fromkeys(depends_on))
        before = (step_id,)
    for step_id, parents in found.items():
        for parent in parents:
            if parent not in found:
                raise InvalidDependencies(f"step {step_id} depends on {parent}, which is no step of this run")
    return {step_id: found[step_id] for step_id in _order(found)}


def _order(found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return tuple(TopologicalSorter(found).static_order())
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidDependencies(f"these steps wait for each other: {circle}") from None

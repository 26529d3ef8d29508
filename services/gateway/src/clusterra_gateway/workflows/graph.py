"""The order of steps: which stand before which. Without I/O."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter


class InvalidSteps(ValueError):
    """The steps cannot be put in an order. The text says why, for the person who wrote them."""


def dependencies(steps: Sequence[tuple[str, tuple[str, ...] | None]]) -> dict[str, tuple[str, ...]]:
    """Each step's id with the ids of the steps that it depends on, in an order in which these stand before it.

    Without a list of its own (None), a step depends on the one before it. Raises InvalidSteps for an id that occurs
    twice, a dependency on an unknown step, and a circle.
    """
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for step_id, depends_on in steps:
        if step_id in found:
            raise InvalidSteps(f"there are two steps {step_id}")
        found[step_id] = before if depends_on is None else tuple(dict.fromkeys(depends_on))
        before = (step_id,)
    for step_id, parents in found.items():
        for parent in parents:
            if parent not in found:
                raise InvalidSteps(f"step {step_id} depends on {parent}, which is no step of this run")
    return {step_id: found[step_id] for step_id in _order(found)}


def _order(found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return tuple(TopologicalSorter(found).static_order())
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise InvalidSteps(f"these steps wait for each other: {circle}") from None

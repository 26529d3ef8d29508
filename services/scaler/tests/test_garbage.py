"""How often Python looks for cycles, in this very process, which has its own pace again afterwards."""

import gc
import weakref
from collections.abc import Iterator

import pytest
from clusterra_scaler.garbage_collection import OBJECTS, collect_seldom


class Knot:
    """Holds itself, so that only a look for cycles removes it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def own_pace() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def looks_for(objects: int) -> int:
    """How often Python looks for cycles while so many more objects come to be."""
    registrations: list[str] = []

    def looked(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            registrations.append(phase)

    gc.callbacks.append(looked)
    made = [[number] for number in range(objects)]
    gc.callbacks.remove(looked)
    assert len(made) == objects
    return len(registrations)


def test_nobody_looks_for_cycles_while_a_large_decision_is_made() -> None:
    assert looks_for(100_000) > 10
    collect_seldom()
    assert looks_for(100_000) == 0


def test_cycles_still_go_in_the_end() -> None:
    collect_seldom()
    later = weakref.ref(Knot())
    assert later() is not None
    assert looks_for(OBJECTS + 1000) > 0
    assert later() is None


def test_what_was_there_is_looked_through_once_and_then_never_again() -> None:
    garbage, kept = weakref.ref(Knot()), Knot()
    lasting = weakref.ref(kept)
    collect_seldom()
    assert garbage() is None
    del kept
    gc.collect()
    assert lasting() is not None

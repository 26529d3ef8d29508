"""The thresholds of Python's garbage collector, tested in this very process and restored afterwards."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
from clusterra_lab.machine.process import until
from clusterra_runtime import interpreter
from clusterra_runtime.interpreter import OBJECTS, collect_seldom


class Cycle:
    """References itself, so that only the garbage collector can free it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def usual_thresholds() -> Iterator[None]:
    """Python's own thresholds: a test of the command line in this process may have left others."""
    before = gc.get_threshold()
    gc.set_threshold(2000, 10, 10)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def collections_while_creating(objects: int) -> int:
    """How often the collector runs while this many objects are created."""
    collections = 0

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal collections
        collections += phase == "start"

    gc.callbacks.append(count)
    created = [[number] for number in range(objects)]
    gc.callbacks.remove(count)
    assert len(created) == objects
    return collections


def test_the_collector_does_not_run_during_a_large_decision() -> None:
    assert collections_while_creating(100_000) > 10

    collect_seldom()

    assert collections_while_creating(100_000) == 0


def test_cycles_are_freed_in_the_end() -> None:
    collect_seldom()
    garbage = weakref.ref(Cycle())
    assert garbage() is not None

    assert collections_while_creating(OBJECTS + 1000) > 0

    assert garbage() is None


async def test_little_garbage_is_freed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "COLLECT_SECONDS", 0.01)
    collect_seldom()
    garbage = weakref.ref(Cycle())

    collecting = asyncio.create_task(interpreter.collect_young())

    await until(lambda: garbage() is None, seconds=90, what="the garbage to be collected")
    collecting.cancel()


def test_present_objects_are_collected_once_and_then_never_again() -> None:
    garbage, kept = weakref.ref(Cycle()), Cycle()
    frozen = weakref.ref(kept)

    collect_seldom()

    assert garbage() is None
    del kept
    gc.collect()
    assert frozen() is not None

"""Times repeated runs of a piece of code, and the shares of the machine and of the garbage collector in them."""

import gc
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LOOP = 1_000_000
STEADY = 1.2
"""Largest factor of the loop time over its fastest at which a run counts as steady."""


class Clock:
    """CPU times and elapsed times of repeated runs; on a busy machine the elapsed times are longer."""

    def __init__(self) -> None:
        self._cpu: list[float] = []
        self._wall: list[float] = []
        self._loops: list[float] = []
        self._collected: list[float] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        before = loop_ms(LOOP // 10)
        with collections() as collected:
            wall, cpu = time.perf_counter(), time.process_time()
            yield
            self._cpu.append((time.process_time() - cpu) * 1e3)
            self._wall.append((time.perf_counter() - wall) * 1e3)
        self._collected.append(sum(collected))
        self._loops.append(max(before, loop_ms(LOOP // 10)))

    @property
    def total_ms(self) -> float:
        return sum(self._cpu)

    def figures(self) -> dict[str, object]:
        return {
            "p50_ms": round(statistics.median(self._cpu), 2),
            "p99_ms": round(p99(self._cpu), 2),
            "wall_p50_ms": round(statistics.median(self._wall), 2),
            "wall_p99_ms": round(p99(self._wall), 2),
            "collected_p99_ms": round(p99(self._collected), 2),
            "runs": len(self._cpu),
            "steady": self._steady(),
        }

    def _steady(self) -> dict[str, float]:
        fastest = sorted(self._loops)[len(self._loops) // 10]
        times = [each for each, loop in zip(self._cpu, self._loops, strict=True) if loop <= fastest * STEADY]
        return {"p50_ms": round(statistics.median(times), 2), "p99_ms": round(p99(times), 2), "runs": len(times)}


@contextmanager
def collections() -> Iterator[list[float]]:
    """Collect the duration of each garbage collection within the block, in CPU milliseconds."""
    durations: list[float] = []
    began = 0.0

    def record(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.process_time()
        else:
            durations.append((time.process_time() - began) * 1e3)

    gc.callbacks.append(record)
    try:
        yield durations
    finally:
        gc.callbacks.remove(record)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def peak_mib() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def loop_ms(additions: int = LOOP) -> float:
    """CPU milliseconds of a plain loop of additions, to compare machines."""
    began = time.process_time()
    total = 0
    for number in range(additions):
        total += number
    return round((time.process_time() - began) * 1e3, 2)

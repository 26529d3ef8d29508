"""Runs checks side by side. Each has a deadline, all together have one too, and no check stops another."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from clusterra_admin.doctor.finding import Finding, failure, warning

SHORTEST_SECONDS = 0.05
"""A check that would have less time than this is not begun."""


@dataclass(frozen=True)
class Probe:
    """A check. It returns findings; an exception or a passed deadline becomes the failure of `check` and `about`."""

    check: str
    run: Callable[[], Awaitable[Sequence[Finding]]]
    advice: str
    """What to do when the check does not end in time or breaks."""
    about: str = ""


class Schedule:
    """The deadlines of one run, and the number of checks that run at once."""

    def __init__(self, total_seconds: float, each_seconds: float, concurrency: int) -> None:
        self._ends_at = time.monotonic() + total_seconds
        self._total_seconds = total_seconds
        self._each_seconds = each_seconds
        self._slots = asyncio.Semaphore(concurrency)

    @property
    def seconds(self) -> float:
        """The seconds that a check which begins now may take."""
        return min(self._each_seconds, self._ends_at - time.monotonic())

    async def run(self, probes: Sequence[Probe]) -> list[Finding]:
        """Run all probes and return their findings, in the order of the probes. Never raises."""
        results = await asyncio.gather(*(self._run(probe) for probe in probes))
        return [finding for findings in results for finding in findings]

    async def _run(self, probe: Probe) -> Sequence[Finding]:
        async with self._slots:
            seconds = self.seconds
            if seconds < SHORTEST_SECONDS:
                return [
                    warning(
                        probe.check,
                        f"not checked: the {self._total_seconds:g} s for all checks were over",
                        "give the doctor more time with --timeout",
                        about=probe.about,
                    )
                ]
            try:
                async with asyncio.timeout(seconds):
                    return await probe.run()
            except TimeoutError:
                seen = f"did not end within {seconds:.1f} s"
            except Exception as error:
                seen = f"{type(error).__name__}: {error}"
            return [failure(probe.check, seen, probe.advice, about=probe.about)]

"""A limit on the time of one decision. The planner's long loops call `check`; without a limit it does nothing."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class DecisionOverdue(Exception):
    """The decision took longer than its limit and was given up. It has changed nothing."""


class _Limit(threading.local):
    ends_at: float | None = None
    """On the clock of the thread's CPU time, so that a busy machine ends no decision."""


_limit = _Limit()


@contextmanager
def time_limit(cpu_seconds: float) -> Iterator[None]:
    """Let `check` raise DecisionOverdue once this thread has computed for that long within the block."""
    _limit.ends_at = time.thread_time() + cpu_seconds
    try:
        yield
    finally:
        _limit.ends_at = None


def check() -> None:
    """Raise DecisionOverdue if the time is over."""
    ends_at = _limit.ends_at
    if ends_at is not None and time.thread_time() > ends_at:
        raise DecisionOverdue("the decision took too long and was given up")

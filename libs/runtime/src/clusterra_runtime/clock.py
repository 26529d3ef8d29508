"""Generations: the numbers of full states, which only grow, even over a restart that forgot the last one."""

import time


def generation(after: int) -> int:
    """The next generation: larger than `after`, and at least the milliseconds of the Unix epoch."""
    return max(after + 1, time.time_ns() // 1_000_000)

"""Settings of Python's interpreter for services with large heaps and busy event loops."""

import asyncio
import gc
import sys

OBJECTS = 200_000
"""Net number of new objects that triggers a collection."""
COLLECT_SECONDS = 60.0
SWITCH_SECONDS = 0.0002


def collect_seldom() -> None:
    """Freeze all present objects, so that the garbage collector skips them, and raise its threshold.

    One decision for ten thousand jobs creates some 100,000 objects, almost none of them in reference cycles. At
    Python's default thresholds the collector interrupts such a decision some sixty times, and half of these runs
    traverse all objects of the process. In a proxy with 1,000 clusters on a busy machine, single steps of tasks took 1
    to 3 s; with this and with turns (`turns`), no iteration of its event loop took 2 s.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 10, 10)


async def collect_young() -> None:
    """Collect the objects that were made since the last collection, once a minute, for as long as the service runs.

    The threshold counts objects that can be in cycles, and not the text and numbers that they hold. With one cluster a
    scaler grew from 94 to 151 MiB in the twelve minutes before its first collection, and with this from 95 to 104 MiB
    in eleven (`make soak`).
    """
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        gc.collect(1)


def switch_often() -> None:
    """Have threads take turns more often than by default, for the event loop's sake.

    A thread that computes keeps the interpreter for a whole switch interval while others wait. With the default of 5 ms
    the event loop waits that long beside a thread that computes, each time after it has waited for something; so does
    `/livez` beside a busy event loop: with 200 clients of a gateway it took 116 ms at the 99th percentile
    (`make bench-gateway`).
    """
    sys.setswitchinterval(SWITCH_SECONDS)

"""Makes Python's cyclic garbage collector run less often.

One decision for ten thousand jobs creates some 100,000 objects, almost none of them in reference cycles. At Python's
default thresholds the collector interrupts such a decision some sixty times, and half of these runs traverse all
objects of the process. In a proxy with 1,000 clusters on a busy machine, single steps of tasks took 1 to 3 s; with this
and with turns (`turns`), no iteration of its event loop took 2 s.
"""

import gc

OBJECTS = 200_000
"""Net number of new objects that triggers a collection."""


def collect_seldom() -> None:
    """Freeze all present objects, so that the collector skips them, and raise its threshold."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 10, 10)

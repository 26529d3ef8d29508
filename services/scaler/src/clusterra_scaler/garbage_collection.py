"""How often Python looks for cycles among its objects.

One decision for ten thousand jobs makes some 100,000 objects, next to none of them in cycles: at Python's own pace it
is interrupted some sixty times, and every second time all that the process holds is looked through.
"""

import gc

OBJECTS = 200_000
"""So many more objects than before have to be there."""


def collect_seldom() -> None:
    """Take all that is there by now for lasting, and look for cycles less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 10, 10)

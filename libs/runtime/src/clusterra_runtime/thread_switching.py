"""Makes Python's threads take turns more often than by default, for the event loop's sake.

A thread that computes keeps the interpreter for a whole switch interval while others wait. With the default of 5 ms the
event loop waits that long beside a thread that computes, each time after it has waited for something; so does `/livez`
beside a busy event loop: with 200 clients of a gateway it took 116 ms at the 99th percentile (`make bench-gateway`).
"""

import sys

SWITCH_SECONDS = 0.0002


def switch_often() -> None:
    """Set the interpreter's switch interval."""
    sys.setswitchinterval(SWITCH_SECONDS)

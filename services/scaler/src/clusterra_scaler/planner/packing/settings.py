"""The few parameters of the packing policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters with values that are near their best on each of several traces, so that none needs care."""

    credit: float = 0.4
    """What room that stays usable is worth, as a share of its price. 0 is blind to which rooms a job destroys, 1 takes
    every free CPU for sold. Costs are flat between 0.25 and 0.6."""

    wait_seconds: float = 30.0
    """How long a job that no ready worker takes may wait for others to be bought for together; room that frees up
    meanwhile costs nothing. With known run times every second of it saves, with learned ones 0 to 60 s cost the same,
    and who needs a new worker waits for its boot, too."""

    joint: bool = True
    """Whether to buy workers for several jobs at once. It gains when run times are learned or known. When only wall
    limits are known, it joins jobs that do not end together and gains nothing."""

    seeds: int = 2
    """How many of the longest waiting jobs are tried as the first of a bundle. A third saves 0.02 % on a trace
    whose run times are known, and 0.1 % on small random queues."""

    looks: int = 5_000
    """How often a group of jobs may be held against a shape in the search for bundles; half as often against open
    rooms, and twice as often for second thoughts. Where that is not enough for all, less is tried for each, and the
    best that was seen is taken. It is counted, not timed, so that the same question gets the same answer."""

    history_weight: float = 4.0
    """How many jobs of its own a history needs to count as much as the wider one it refines."""

    first_hazard: float = 0.15
    """The chance to end within one age bin of a job of which nothing is known: a median run of some 20 minutes with a
    long tail."""

"""The parameters of the packing policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of the packing, near their best on each of several traces, so that none needs tuning."""

    credit: float = 0.4
    """Value of free capacity that stays usable, as a share of its price. 0 ignores which capacity a job makes
    unusable; 1 takes every free CPU for sold. Costs are flat between 0.25 and 0.6."""

    batch_seconds: float = 30.0
    """Batching window: how long a job that no ready worker takes may wait, so that workers are bought for several jobs
    together and capacity that frees up meanwhile is used at no cost. With known run times each second of the window
    saves; with learned run times 0 to 60 s cost the same, and a job that needs a new worker waits for its boot, too."""

    bundling: bool = True
    """Whether workers are bought for several jobs at once. It saves when run times are learned or known. With wall
    limits alone it joins jobs that do not end together, and saves nothing."""

    bundle_seeds: int = 2
    """How many of the longest waiting jobs are tried as the first job of a bundle. A third saves 0.02 % on a trace with
    known run times, and 0.1 % on small random queues."""

    trials: int = 5_000
    """Search budget: how often a group of jobs may be tried on a shape in the search for bundles; half as often on
    open bins, and twice as often in the local search. Where the budget is too small for all, less is tried for each
    group and the best that was found is taken. It counts trials instead of time, so that the same input gives the
    same answer."""

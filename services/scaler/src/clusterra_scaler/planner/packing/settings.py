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

    local_search: bool = True
    """Whether small purchases are improved by local search. It saves when run times are learned or known. With wall
    limits alone it joins jobs that do not end together: synthetic traces then cost 4 to 5 % more."""

    trials: int = 5_000
    """Search budget of a decision. All groups of jobs together are tried on at most half as many open bins (but each
    group on some). The local search tries its jobs on at most twice as many new workers. When the budget is spent, the
    best plan so far is taken. The budget counts trials, not time, so that the same input gives the same plan."""

"""The placement predicate: which jobs a worker with free capacity rejects.

Slurm starts a job at once wherever it fits, in the order of the nodes' weights. That is the wrong node when the job
would prolong a big, mostly empty worker for longer than a worker of its own would cost. Of all that a scaler can tell
Slurm this matters most: with it, the order of the nodes hardly does. Slurm carries it by
SchedulerParameters=extra_constraints, which matches a node's Extra against a job's --extra; a job that is rejected
there waits and is not held.

A rejected job waits for the boot of its new worker, and that wait has a price. So a job is rejected only where the new
worker saves more than the wait costs.
"""

from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings

_SECONDS_PER_HOUR = 3600.0


def wait_usd(wait_usd_per_hour: float, boot_seconds: float) -> float:
    """The price of a job's wait for the boot of a new worker, in USD."""
    return wait_usd_per_hour / _SECONDS_PER_HOUR * boot_seconds


def rejects(bin_: Bin, group: Group, most_usd: float, settings: Settings) -> bool:
    """Whether a node's share of the job costs more in this bin than `most_usd`.

    `most_usd` is the cost of the share on a new worker, plus the price of the wait for its boot (see `wait_usd`).
    """
    return bin_.marginal_usd(group, settings, most_usd) > most_usd

"""The placement predicate: which jobs a worker with free capacity rejects.

Slurm starts a job at once wherever it fits, in the order of the nodes' weights. That is the wrong node when the job
would prolong a big, mostly empty worker for longer than a worker of its own would cost. Of all that a scaler can tell
Slurm this matters most: with it, the order of the nodes hardly does. Slurm carries it by
SchedulerParameters=extra_constraints, which matches a node's Extra against a job's --extra; a job that is rejected
there waits and is not held.
"""

from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings


def rejects(bin_: Bin, group: Group, new_usd: float, settings: Settings) -> bool:
    """Whether a node's share of the job costs more in this bin than on a new worker, which would cost `new_usd`."""
    return bin_.marginal_usd(group, settings, new_usd) > new_usd

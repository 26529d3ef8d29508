"""Which of the workers with room a job is kept from.

Slurm starts a job at once wherever it has room, in the order of the nodes' weights. That is the wrong place when the
job would prolong a big worker, mostly empty by then, for longer than a worker of its own would cost. Of all that a
scaler can tell Slurm this matters most: with it, the order hardly does. Slurm's way to carry it is
SchedulerParameters=extra_constraints: a node's Extra against a job's --extra, where a refused job waits and is not
held.
"""

from clusterra_scaler.planner.packing.bins import Bin
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings


def rejects(bin_: Bin, group: Group, new_usd: float, settings: Settings) -> bool:
    """Whether the job costs more here than on a new worker, which would cost `new_usd` for each of its nodes."""
    return bin_.price_of(group, settings, new_usd) > new_usd

"""How often a cluster is polled and its queue published, and for how long a snapshot is valid. Times are in seconds."""

from dataclasses import dataclass

from clusterra_proxy.watch.pace import Pace

QUIET_POLLS_PER_NODE_POLL = 2
"""While no job is pending and no node drains, the nodes are polled only at every n-th poll of the jobs."""
LONGEST_READ_SECONDS = 30.0
"""A Slurm that takes longer to answer than this makes its snapshots invalid, and so does a longer wait for a turn."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of one cluster."""

    pace: Pace
    """Of the polls."""
    quiet_seconds: float
    """Between two publications of an unchanged queue: the longest time without one."""
    margin_seconds: float
    """How much later than usual a snapshot may come."""

    @property
    def poll_seconds(self) -> float:
        """Between two polls, now."""
        return self.pace.poll_seconds

    def valid_seconds(self, read_seconds: float) -> float:
        """For how long a snapshot is valid that is published `read_seconds` after its first read of Slurm began.

        The next one is read no earlier than after the longest pause, and its reads may take as long again.
        """
        read = min(read_seconds, LONGEST_READ_SECONDS)
        turn = min(self.pace.turn_seconds, LONGEST_READ_SECONDS)
        polls = QUIET_POLLS_PER_NODE_POLL * (self.poll_seconds + turn)
        return 2 * read + polls + self.quiet_seconds + self.margin_seconds

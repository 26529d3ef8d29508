"""`--clusters`: the gateway's cluster is the only one that a command can mean."""

import os

from clusterra_cli.getopt import Words, split
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.gateway import Gateway


def chosen_clusters(command: str, words: Words, gateway: Gateway) -> tuple[str, ...]:
    """The clusters that are named by `-M` or SLURM_CLUSTERS: none, or the gateway's own. Raises CommandFailed."""
    given = split(words.last("clusters", os.environ.get("SLURM_CLUSTERS")) or "")
    if not given:
        return ()
    if any(each not in (gateway.cluster, "all") for each in given):
        other = next(each for each in given if each not in (gateway.cluster, "all"))
        raise CommandFailed(
            f"{command}: error: '{other}' can't be reached now, or it is an invalid entry for --cluster."
        )
    return (gateway.cluster,)

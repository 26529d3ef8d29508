"""How a cluster's Slurm is."""

from clusterra_contracts.rpc.slurm import Diagnose, Diagnosis

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import Unavailable


async def diagnose(cluster: Cluster, _request: Diagnose) -> Diagnosis:
    """Ask the controller now. Only what is no matter of being away is an error, such as a wrong key."""
    slurmctld = cluster.slurmctld
    token = cluster.mint.operator()
    try:
        # A ping proves nothing about the token, so something is asked that does.
        reachable = await slurmctld.ping(token) and bool(await slurmctld.nodes(token))
    except Unavailable:
        reachable = False
    return Diagnosis(
        reachable=reachable,
        api_version=slurmctld.api_version,
        slurm_version=slurmctld.slurm_version,
        jobs=len(cluster.jobs),
        last_listed_at=slurmctld.last_listed_at,
    )

"""Diagnoses a cluster's Slurm."""

from clusterra_contracts.rpc.slurm import Diagnose, Diagnosis

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import Unavailable


async def diagnose(cluster: Cluster, _request: Diagnose) -> Diagnosis:
    """Check slurmctld now. An unavailable Slurm is a result; other failures, such as a wrong key, are errors."""
    slurmctld = cluster.slurmctld
    token = cluster.mint.operator_token()
    try:
        # A ping succeeds with any token, so nodes are read too.
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

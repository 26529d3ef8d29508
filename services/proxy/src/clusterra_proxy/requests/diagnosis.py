"""Diagnoses a cluster's Slurm."""

from clusterra_contracts.rpc.slurm_nodes import Diagnose, Diagnosis

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import SlurmFailed, Unavailable


async def diagnose(cluster: Cluster, _request: Diagnose) -> Diagnosis:
    """Check slurmctld and slurmdbd now. An unavailable Slurm is a result; other failures, such as a wrong key, are
    errors.
    """
    slurmctld = cluster.slurmctld
    token = cluster.mint.operator_token()
    partition_found = None
    problem = ""
    try:
        # A ping succeeds with any token, so nodes are read too.
        reachable = await slurmctld.ping(token) and bool(await slurmctld.nodes(token))
        if reachable:
            partition_found = cluster.binding.partition in await slurmctld.partitions(token)
        else:
            problem = "slurmrestd answers, but slurmctld does not"
    except Unavailable as error:
        reachable, problem = False, error.error.detail
    operator_privileged = None
    if reachable:
        try:
            operator_privileged = cluster.binding.operator.name in await cluster.accounting.privileged_names(token)
        except SlurmFailed as error:
            problem = f"slurmdbd: {error.error.detail}"
    return Diagnosis(
        reachable=reachable,
        api_version=slurmctld.api_version,
        slurm_version=slurmctld.slurm_version,
        jobs=len(cluster.jobs),
        last_listed_at=slurmctld.last_listed_at,
        partition_found=partition_found,
        operator_privileged=operator_privileged,
        problem=problem,
    )

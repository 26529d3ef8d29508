"""Has Slurm itself refuse the jobs of those whose quota is used up, by `GrpSubmitJobs=0` of their associations.

An association whose limit somebody else has set to another number stays as it is. A limit of 0 is Clusterra's: it is
lifted as soon as it is not wanted any more, also by another replica and after a restart.
"""

from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_limits import BlockSubmits

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.associations import ROOT_ACCOUNT, Association
from clusterra_proxy.slurmrestd.errors import Rejected


async def block_submits(cluster: Cluster, request: BlockSubmits) -> Done:
    """Change the associations that are not as they should be. Raises Rejected where accounting is not enforced."""
    if not cluster.binding.accounting_enforced:
        raise Rejected(
            "this cluster's Slurm does not enforce the limits of associations",
            hint="set AccountingStorageEnforce=limits in slurm.conf and accounting_enforced in the cluster's binding",
        )
    token = cluster.mint.operator_token()
    known = await cluster.accounting.associations(token)
    wanted = [(each, _wanted(each, request)) for each in known]
    await cluster.accounting.limit_submits(
        token, [each.with_most_submitted(most) for each, most in wanted if most != each.most_submitted]
    )
    return Done()


def _wanted(association: Association, request: BlockSubmits) -> int | None:
    if association.user:
        blocked = association.user in request.users
    else:
        blocked = association.account in request.accounts
        blocked |= request.everybody and association.account == ROOT_ACCOUNT
    if blocked:
        return 0 if association.most_submitted is None else association.most_submitted
    return None if association.most_submitted == 0 else association.most_submitted

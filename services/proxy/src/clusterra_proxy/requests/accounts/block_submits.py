"""Has Slurm itself refuse the jobs of those whose quota is used up, or who are deactivated.

Where Slurm enforces the limits of associations, by `GrpSubmitJobs=0` of their associations. An association whose limit
somebody else has set to another number stays as it is. A limit of 0 is Clusterra's: it is lifted as soon as it is not
wanted any more, also by another replica and after a restart.

Where Clusterra keeps the associations, a user is refused by their default account, which slurmctld knows at each
submit: that is then DEACTIVATED_ACCOUNT, and `job_submit.lua` refuses their jobs.
"""

from collections.abc import Iterable
from functools import partial

from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_limits import BlockSubmits

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.associations import DEACTIVATED_ACCOUNT, OWN_ACCOUNTS, ROOT_ACCOUNT, Association
from clusterra_proxy.slurmrestd.errors import Rejected
from clusterra_proxy.slurmrestd.reading.fields import MEMBERS_ACCOUNT

ANSWER_SECONDS = 20.0
"""In this time slurmdbd must have changed the default accounts: the gateway waits little longer."""


async def block_submits(cluster: Cluster, request: BlockSubmits) -> Done:
    """Change the associations that are not as they should be.

    Raises Rejected where accounting is not enforced, except for users where Clusterra keeps the associations.
    """
    if cluster.binding.accounting_enforced:
        await _limit(cluster, request)
    elif cluster.binding.keeps_associations and not (request.accounts or request.everybody):
        work = partial(_deactivate, cluster, frozenset(request.users))
        await cluster.member_accounts.alone(work, ANSWER_SECONDS)
    else:
        raise Rejected(
            "this cluster's Slurm does not enforce the limits of associations",
            hint="set AccountingStorageEnforce=limits in slurm.conf and accounting_enforced in the cluster's binding",
        )
    return Done()


async def _limit(cluster: Cluster, request: BlockSubmits) -> None:
    token = cluster.mint.operator_token()
    known = await cluster.accounting.associations(token)
    wanted = [(each, _wanted(each, request)) for each in known]
    await cluster.accounting.change_associations(
        token, [each.with_most_submitted(most) for each, most in wanted if most != each.most_submitted]
    )
    # These were deactivated while Clusterra kept the associations. The limit refuses their jobs now.
    left = [each for each in known if each.account == DEACTIVATED_ACCOUNT and each.user]
    await cluster.accounting.change_associations(token, list(_defaults(left, frozenset())))


def _wanted(association: Association, request: BlockSubmits) -> int | None:
    if association.user:
        blocked = association.user in request.users
    else:
        blocked = association.account in request.accounts
        blocked |= request.everybody and association.account == ROOT_ACCOUNT
    if blocked:
        return 0 if association.most_submitted is None else association.most_submitted
    return None if association.most_submitted == 0 else association.most_submitted


async def _deactivate(cluster: Cluster, users: frozenset[str]) -> None:
    """Make DEACTIVATED_ACCOUNT the default of these users, and MEMBERS_ACCOUNT that of all others who have it."""
    token = cluster.mint.operator_token()
    known = [each for each in await cluster.accounting.associations(token, account=DEACTIVATED_ACCOUNT) if each.user]
    if new := sorted(users - {each.user for each in known}):
        name, _ = await cluster.accounting.accounts(token)
        await cluster.accounting.add_accounts(token, OWN_ACCOUNTS, name)
        # slurmctld learns of a known user's new default account by a change alone, not with a new association.
        await cluster.accounting.add_users(token, new, OWN_ACCOUNTS, name, default=MEMBERS_ACCOUNT)
        known += [Association(account=DEACTIVATED_ACCOUNT, user=each, cluster=name) for each in new]
    await cluster.accounting.change_associations(token, list(_defaults(known, users)))


def _defaults(known: Iterable[Association], users: frozenset[str]) -> Iterable[dict[str, object]]:
    """The changes of the default accounts of those who are in DEACTIVATED_ACCOUNT."""
    for each in known:
        if (each.user in users) != each.is_default:
            account = DEACTIVATED_ACCOUNT if each.user in users else MEMBERS_ACCOUNT
            yield each.model_copy(update={"account": account}).as_default()

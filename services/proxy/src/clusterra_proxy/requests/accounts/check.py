"""The account of a submit: whether its user may have jobs in it."""

from clusterra_contracts.identity import SlurmUser

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.error_codes import INVALID_ACCOUNT
from clusterra_proxy.slurmrestd.errors import Rejected
from clusterra_proxy.slurmrestd.reading.fields import MEMBERS_ACCOUNT

MAX_NAMED = 10
"""The most accounts that a hint names."""


async def check_account(cluster: Cluster, user: SlurmUser, account: str) -> None:
    """Give the user associations with all accounts where Clusterra keeps them. Raises Rejected for an unknown account.

    Slurm itself would book a job of an unknown account on the user's default one. While slurmdbd is away nobody knows
    the accounts, and Slurm takes the job as it is.
    """
    if not cluster.binding.keeps_associations:
        return
    account = account.lower()
    accounts = await cluster.member_accounts.of(user.name, account)
    if not account or accounts is None or account in accounts:
        return
    named = sorted(accounts - {MEMBERS_ACCOUNT})
    more = ", ..." if len(named) > MAX_NAMED else ""
    others = f"use one of {', '.join(named[:MAX_NAMED])}{more}, or none" if named else "leave it out"
    raise Rejected(f"there is no account {account} for jobs", hint=others, code=INVALID_ACCOUNT)

"""Associations of slurmdbd: users in accounts, and accounts, each with limits that slurmctld enforces."""

from collections.abc import Iterable
from itertools import batched
from typing import Any

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.fields import MEMBERS_ACCOUNT, NullableList, Number, Text
from clusterra_proxy.slurmrestd.reading.repair import Record

ROOT_ACCOUNT = "root"
"""The account above all others of a cluster."""
DEACTIVATED_ACCOUNT = "clusterra-deactivated"
"""The default account of those who may submit nothing: `images/slurm/job_submit.lua` refuses their jobs."""
CLOSED_ACCOUNTS = frozenset({ROOT_ACCOUNT, "operators", DEACTIVATED_ACCOUNT})
"""The accounts in which no member has jobs."""
OWN_ACCOUNTS = {
    MEMBERS_ACCOUNT: "jobs that name no account",
    DEACTIVATED_ACCOUNT: "people who are deactivated: they submit nothing",
}
"""The accounts that Clusterra makes, each with its description in slurmdbd."""
CHANGES_AT_ONCE = 100


class _PerJobs(Record):
    submitted: Number = None


class _MaxJobs(Record):
    per: _PerJobs = _PerJobs()


class _Max(Record):
    jobs: _MaxJobs = _MaxJobs()


class Association(Record):
    """A user in an account, or with an empty `user` an account itself, on one cluster."""

    account: Text = ""
    user: Text = ""
    cluster: Text = ""
    partition: Text = ""
    is_default: bool = False
    """Whether jobs of the user that name no account are booked here."""
    max: _Max = _Max()

    @property
    def most_submitted(self) -> int | None:
        """`GrpSubmitJobs`: how many jobs it may have in the queue; None without a limit."""
        return self.max.jobs.per.submitted

    def with_most_submitted(self, most: int | None) -> dict[str, Any]:
        """What slurmrestd takes to change that limit, and nothing else."""
        submitted = {"set": True, "infinite": most is None, "number": most or 0}
        return self._key | {"max": {"jobs": {"per": {"submitted": submitted}}}}

    def as_default(self) -> dict[str, Any]:
        """What slurmrestd takes to make it the user's default, and changes nothing else."""
        return self._key | {"is_default": True}

    @property
    def _key(self) -> dict[str, Any]:
        return {"account": self.account, "user": self.user, "cluster": self.cluster, "partition": self.partition}


class Associations(Answer):
    """Answer to `GET slurmdb associations/`."""

    associations: NullableList[Association] = ()

    @property
    def of_this_cluster(self) -> tuple[Association, ...]:
        """Those of the cluster that answers: several may share one slurmdbd."""
        cluster = self.meta.slurm.cluster
        return tuple(each for each in self.associations if each.cluster == cluster)


class AccountName(Record):
    """An account."""

    name: Text = ""


class Accounts(Answer):
    """Answer to `GET slurmdb accounts/`."""

    accounts: NullableList[AccountName] = ()


def added_accounts(names: Iterable[str], cluster: str) -> Iterable[dict[str, Any]]:
    """The bodies of the requests that add accounts of Clusterra's to a cluster."""
    for name in names:
        yield {
            "association_condition": {"accounts": [name], "clusters": [cluster], "association": {}},
            "account": {"description": OWN_ACCOUNTS[name], "organization": "clusterra"},
        }


def added_users(users: Iterable[str], accounts: Iterable[str], cluster: str, default: str) -> Iterable[dict[str, Any]]:
    """The bodies of the requests that add users to accounts. An empty `default` keeps their default account."""
    names = list(accounts)
    for some in batched(users, CHANGES_AT_ONCE):
        condition = {"accounts": names, "users": list(some), "clusters": [cluster], "association": {}}
        yield {"association_condition": condition, "user": {"defaultaccount": default} if default else {}}


def changes(associations: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The bodies of the requests that change associations, in bounded parts."""
    for some in batched(associations, CHANGES_AT_ONCE):
        yield {"associations": list(some)}

"""Associations of slurmdbd: users in accounts, and accounts, each with limits that slurmctld enforces."""

from collections.abc import Iterable
from itertools import batched
from typing import Any

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.fields import NullableList, Number, Text
from clusterra_proxy.slurmrestd.reading.repair import Record

ROOT_ACCOUNT = "root"
"""The account above all others of a cluster."""
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
    max: _Max = _Max()

    @property
    def most_submitted(self) -> int | None:
        """`GrpSubmitJobs`: how many jobs it may have in the queue; None without a limit."""
        return self.max.jobs.per.submitted

    def with_most_submitted(self, most: int | None) -> dict[str, Any]:
        """What slurmrestd takes to change that limit, and nothing else."""
        submitted = {"set": True, "infinite": most is None, "number": most or 0}
        key = {"account": self.account, "user": self.user, "cluster": self.cluster, "partition": self.partition}
        return key | {"max": {"jobs": {"per": {"submitted": submitted}}}}


class Associations(Answer):
    """Answer to `GET slurmdb associations/`."""

    associations: NullableList[Association] = ()

    @property
    def of_this_cluster(self) -> tuple[Association, ...]:
        """Those of the cluster that answers: several may share one slurmdbd."""
        cluster = self.meta.slurm.cluster
        return tuple(each for each in self.associations if each.cluster == cluster)


def changes(associations: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The bodies of the requests that change associations, in bounded parts."""
    for some in batched(associations, CHANGES_AT_ONCE):
        yield {"associations": list(some)}

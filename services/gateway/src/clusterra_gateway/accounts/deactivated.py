"""The marks of members who may submit nothing, so that a cluster's Slurm learns of them without a look at all members.

A mark is written and removed together with the member. It keeps the names that the member had on the clusters, since
an identity source forgets whom its directory has deactivated.
"""

from collections.abc import Mapping
from datetime import datetime

from clusterra_contracts.identity import Moment, UserName, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Delete, Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, DEACTIVATED, deactivated_key, tenant_key
from clusterra_gateway.accounts.records import ALLOCATED, Member, Record

PAGE = 1000


class Deactivated(Record):
    """Since when a member may submit nothing, and their user names by identity source."""

    since: Moment
    names: dict[str, UserName]

    def name_on(self, binding: ClusterBinding) -> UserName | None:
        """The member's user name on a cluster; None where they had none."""
        return self.names.get(binding.identity_source or ALLOCATED)


def deactivated_mark(member: Member, names: Mapping[str | None, UserName]) -> Update:
    """The write of a member's mark. `names` are those by identity source; None stands for Clusterra's own."""
    by_source = {ALLOCATED: member.user} | {source or ALLOCATED: name for source, name in names.items()}
    mark = Deactivated(since=now(), names=by_source)
    return Update(ACCOUNTS, deactivated_key(member.tenant, member.user), set=mark.attributes())


def no_deactivated_mark(member: Member) -> Delete:
    """The removal of a member's mark, if there is one."""
    return Delete(ACCOUNTS, deactivated_key(member.tenant, member.user))


async def deactivated_on(store: Store, tenant: str, binding: ClusterBinding) -> list[UserName]:
    """The user names on a cluster of those who may submit nothing: who was deactivated last comes first.

    Raises StoreError.
    """
    found: dict[UserName, datetime] = {}
    partition = tenant_key(tenant).pk
    async for item in all_items(
        lambda after: store.query(ACCOUNTS, partition, sort=DEACTIVATED, cursor=after, limit=PAGE)
    ):
        mark = Deactivated.readable(item)
        name = None if mark is None else mark.name_on(binding)
        if mark is not None and name is not None:
            found[name] = mark.since
    return sorted(found, key=lambda name: (found[name], name), reverse=True)

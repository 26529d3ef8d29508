"""Links that show a job to somebody without an account, in the record.

A link has three items: the link itself in its cluster, its place by its id alone, and a mark at the member who made it.
They are written together, expire together, and are never changed.
"""

import asyncio
from typing import Self

from clusterra_contracts.identity import ClusterRef, Id, JobId, Moment, UserName
from clusterra_runtime.store.condition import Absent, Present
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.store import Delete, Put, Store

from clusterra_gateway.accounts.keyspace import (
    ACCOUNTS,
    SHARED_LINKS,
    member_key,
    member_link_key,
    shared_link_id,
    shared_link_key,
    shared_link_place_key,
    shared_links_of,
    shared_links_partition,
)
from clusterra_gateway.accounts.records import Record, expiry

READS_AT_A_TIME = 10
"""How many links of a member are read at the same time."""


class SharedLink(Record):
    """What a link shows, until when, and whose it is. Only the hash of its secret is stored."""

    tenant: Id
    cluster: Id
    job_id: JobId
    submitted_at: Moment
    """When the job was submitted: Slurm may begin to count its jobs again."""
    member: str
    """The id of the job's owner, who has made it."""
    user: UserName
    name: str = ""
    shows: tuple[str, ...] = ()
    secret_hash: str
    token_id: str | None = None
    """The API token that has made it, with which it ends; None for a browser's sign-in."""
    created_at: Moment
    valid_until: Moment

    @property
    def ref(self) -> ClusterRef:
        """The cluster of the job."""
        return ClusterRef(tenant=self.tenant, cluster=self.cluster)

    def puts(self, link_id: str) -> tuple[Put, ...]:
        """The writes of a new link."""
        place, ends = LinkPlace.of_link(self).attributes(), expiry(self.valid_until)
        return (
            Put(ACCOUNTS, shared_link_key(self.ref, self.job_id, link_id), self.attributes(), Absent(), ends),
            Put(ACCOUNTS, shared_link_place_key(link_id), place, Absent(), ends),
            Put(ACCOUNTS, member_link_key(self.member, link_id), {}, Absent(), ends),
        )

    def deletes(self, link_id: str) -> tuple[Delete, ...]:
        """The writes that remove the link."""
        return (
            Delete(ACCOUNTS, shared_link_key(self.ref, self.job_id, link_id), Present()),
            Delete(ACCOUNTS, shared_link_place_key(link_id)),
            Delete(ACCOUNTS, member_link_key(self.member, link_id)),
        )


class LinkPlace(Record):
    """Where a link is, by its id."""

    tenant: Id
    cluster: Id
    job_id: JobId

    @classmethod
    def of_link(cls, link: SharedLink) -> Self:
        """The place of a link."""
        return cls(tenant=link.tenant, cluster=link.cluster, job_id=link.job_id)


class SharedLinkRecords:
    """The links of all clusters. Every method may raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, link_id: str) -> SharedLink | None:
        """A link by its id alone; None when there is none, or no longer."""
        item = await self._store.get(ACCOUNTS, shared_link_place_key(link_id))
        if item is None:
            return None
        place = LinkPlace.of(item)
        return await self.read(ClusterRef(tenant=place.tenant, cluster=place.cluster), place.job_id, link_id)

    async def read(self, ref: ClusterRef, job_id: JobId, link_id: str) -> SharedLink | None:
        """A link of a job; None when there is none, or no longer."""
        item = await self._store.get(ACCOUNTS, shared_link_key(ref, job_id, link_id))
        return None if item is None else SharedLink.of(item)

    async def of_job(self, ref: ClusterRef, job_id: JobId) -> tuple[tuple[str, SharedLink], ...]:
        """The ids and records of a job's links that can be read."""
        page = await self._store.query(ACCOUNTS, shared_links_partition(ref), sort=shared_links_of(job_id))
        found = ((shared_link_id(item.key), SharedLink.readable(item)) for item in page.items)
        return tuple((link_id, link) for link_id, link in found if link is not None)

    async def of_member(
        self, member: str, *, limit: int, cursor: str | None
    ) -> tuple[tuple[tuple[str, SharedLink], ...], str | None]:
        """The ids and records of a member's links in all clusters, with a cursor. Raises InvalidCursor.

        It looks at `limit` marks: links that ended meanwhile, or cannot be read, are left out.
        """
        page = await self._store.query(ACCOUNTS, member_key(member).pk, sort=SHARED_LINKS, limit=limit, cursor=cursor)
        slots = asyncio.Semaphore(READS_AT_A_TIME)

        async def marked(link_id: str) -> tuple[str, SharedLink] | None:
            async with slots:
                link = await self.find(link_id)
            return None if link is None or link.member != member else (link_id, link)

        found = await asyncio.gather(*(marked(shared_link_id(item.key)) for item in page.items))
        return tuple(each for each in found if each is not None), page.cursor

    async def count(self, member: str) -> int:
        """How many links a member has."""
        return len((await self._store.query(ACCOUNTS, member_key(member).pk, sort=SHARED_LINKS)).items)

    async def forget(self, ref: ClusterRef, most: int) -> int:
        """Remove at most `most` links of a cluster that is deleted. Returns how many."""
        page = await self._store.query(ACCOUNTS, shared_links_partition(ref), limit=most)
        for item in page.items:
            await self._forget(item)
        return len(page.items)

    async def _forget(self, item: Item) -> None:
        """Remove a link. The mark and the place of one that cannot be read expire with it."""
        link_id, link = shared_link_id(item.key), SharedLink.readable(item)
        others = [shared_link_place_key(link_id)]
        if link is not None:
            others.append(member_link_key(link.member, link_id))
        await asyncio.gather(*(self._store.delete(Delete(ACCOUNTS, key)) for key in others))
        await self._store.delete(Delete(ACCOUNTS, item.key))

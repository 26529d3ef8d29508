"""Who a shared link stands for: its owner as they are now, for the one job, and for nothing else.

Nothing is cached: the store is read for each request, so that a link that is revoked, or whose owner may no longer see
the job, shows nothing from then on, on all replicas.
"""

import hmac
import math
from dataclasses import dataclass
from datetime import timedelta

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.rate_limit import RateLimit

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, api_token_key
from clusterra_gateway.accounts.shared_link_records import SharedLink, SharedLinkRecords
from clusterra_gateway.http.requests.errors import NotFound, TooManyRequests
from clusterra_gateway.identity.access.authentication import bearer_of
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.access.limits import RateLimits, Rates
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.shared_links.link_tokens import split_link

PER_MINUTE = 600
"""How many requests with a link a replica answers in a minute, of all who have it."""
MEMBER_PER_MINUTE = 2_000
"""How many requests with all links of a member a replica answers in a minute: each asks the member's cluster."""
CLOCK_SECONDS = timedelta(seconds=1)
"""Slurm's times are in whole seconds."""


@dataclass(frozen=True)
class OpenedLink:
    """A link that is valid now."""

    id: str
    record: SharedLink
    viewer: Viewer
    """The owner, who sees their own jobs only, whatever their role."""
    shared_path: str
    """The shared folder of the cluster, as its jobs see it."""

    @property
    def ref(self) -> ClusterRef:
        """The cluster of the job."""
        return self.record.ref

    def shows(self, part: str) -> bool:
        """Whether the owner lets it show this part."""
        return part in self.record.shows

    def require(self, part: str) -> None:
        """Raises NotFound for a part that the link does not show."""
        if not self.shows(part):
            raise NotFound(f"this link does not show the job's {part}", hint="ask whoever gave it to you")

    def check(self, job: Job) -> None:
        """Raises NotFound where the job is not the one that the link was made for.

        Slurm may have begun to count its jobs again. A job that it requeues gets another submit time, too.
        """
        later = job.submitted_at - self.record.submitted_at > CLOCK_SECONDS
        if not self.viewer.owns(job.uid) or (later and not job.restarts):
            raise no_such_link()


class LinkAccess:
    """Decides whether a request with a shared link may go on to its handler."""

    def __init__(self, identity: IdentityParts, directory: Directory, registry: Registry) -> None:
        self.streams = identity.access.streams
        self._limits = RateLimits(Rates(PER_MINUTE, PER_MINUTE))
        self._of_member = RateLimit(MEMBER_PER_MINUTE / 60, MEMBER_PER_MINUTE)
        self._authentication = identity.authentication
        self._unix_users = identity.unix_users
        self._directory = directory
        self._registry = registry
        self._records = SharedLinkRecords(directory.store)

    async def opened(self, request: web.Request) -> OpenedLink:
        """The link whose token the request has in its header.

        Raises Unauthenticated without such a token; NotFound for one that is wrong, expired or revoked, or whose owner
        may not see the job; TooManyRequests.
        """
        token = bearer_of(request) or ""
        link_id, secret = split_link(token)

        async def look() -> SharedLink | None:
            record = await self._records.find(link_id)
            right = record is not None and hmac.compare_digest(record.secret_hash, secret_hash(secret))
            return record if right else None

        record = await self._authentication.looked_up(request, token, look)
        if record is None or record.valid_until <= now():
            raise no_such_link()
        self._limits.admit(request, link_id)
        # After the link's, so that one link that is asked too often does not use up what the others have.
        taken = self._of_member.take(record.member)
        if not taken.admitted:
            raise TooManyRequests(
                "the links of whoever gave you this one were opened too often in the last minute",
                hint="wait for the seconds in Retry-After",
                retry_after_seconds=max(math.ceil(taken.next_seconds), 1),
            )
        return await self._for_owner(link_id, record)

    async def _for_owner(self, link_id: str, record: SharedLink) -> OpenedLink:
        binding, member = self._registry.get(record.ref), await self._directory.member(record.member)
        if binding is None or member is None or member.disabled or member.tenant != record.tenant:
            raise no_such_link()
        # A service account that was deleted and made again has the same id.
        if member.deleted or record.created_at < member.joined_at or not await self._credential_holds(record):
            raise no_such_link()
        there = await self._unix_users.of(member, binding)
        if there.user is None:
            raise no_such_link()
        return OpenedLink(link_id, record, Viewer(user=there.user), binding.shared_path)

    async def _credential_holds(self, record: SharedLink) -> bool:
        """Whether the API token that has made the link was not taken."""
        if record.token_id is None:
            return True
        key = api_token_key(record.member, record.token_id)
        return await self._directory.store.get(ACCOUNTS, key) is not None


def no_such_link() -> NotFound:
    """The answer for each link that shows nothing, whatever the reason: who has it learns no more."""
    return NotFound("this link is wrong, has expired or was revoked", hint="ask whoever gave it to you for another one")

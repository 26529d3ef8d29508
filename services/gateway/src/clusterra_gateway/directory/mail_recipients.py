"""Answers `mail-recipients.<tenant>`: who gets a mail, at which address. The events service asks when it sends one.

So a member who is disabled, and an address that has changed, count at the next request. The events service has no
right to read these records, and learns no other address.
"""

import asyncio

from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.mails import MOST_RECIPIENTS, ReadRecipients, Recipient, Recipients
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.page import all_items

from clusterra_gateway.accounts.addresses import PAGE, people_with
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, USER_NAMES, tenant_key, user_name_key
from clusterra_gateway.accounts.records import OPERATOR, Member, UserNameReservation
from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.scim.provisioned import ProvisionedDirectory
from clusterra_gateway.people.notifications import Notifications

SUBJECT = "mail-recipients.*"
QUEUE = "gateway"
"""Replicas share the requests."""
UNKNOWN_UID = 65534
"""The uid of an owner whom only their name tells: jobs from Slurm's accounting have no other."""
MOST_MEMBERS = 2000
"""How many members are looked at for admins. Of a larger tenant, those whose names come first."""


class MailRecipients:
    """The answers. Methods raise StoreError."""

    def __init__(
        self, directory: Directory, registry: Registry, maps: MapRecords, provisioned: ProvisionedDirectory
    ) -> None:
        self._directory = directory
        self._registry = registry
        self._maps = maps
        self._provisioned = provisioned
        self._notifications = Notifications(directory.store)

    async def serve(self, client: Client) -> None:
        """Answer requests until cancelled."""
        subscription = await rpc.serve_tenant(client, SUBJECT, ReadRecipients, self.read, queue=QUEUE)
        try:
            await asyncio.Event().wait()
        finally:
            await subscription.unsubscribe()

    async def read(self, ref: TenantRef, request: ReadRecipients) -> Recipients:
        """The people whom an event is about, and who may get mails."""
        if not request.user:
            return await self._admins(ref.tenant)
        person = await self._person(ref.tenant, request)
        if person is None or not await self._may_get_mails(person):
            return Recipients()
        return Recipients(recipients=(await self._recipient(person),))

    async def _person(self, tenant: str, request: ReadRecipients) -> Member | None:
        """The person with this user name on a cluster; None where the uid is another one's."""
        uid = None if request.uid == UNKNOWN_UID else request.uid
        binding = self._registry.clusters.get(ClusterRef(tenant=tenant, cluster=request.cluster))
        if binding is None:
            return None
        if binding.identity_source is not None:
            entry = await self._maps.by_name(MapRef(tenant, binding.identity_source), request.user)
            if entry is None or not entry.active or uid not in (None, entry.uid):
                return None
            people = await people_with(self._directory, tenant, entry.emails)
            return people[0] if len(people) == 1 else None
        item = await self._directory.store.get(ACCOUNTS, user_name_key(tenant, request.user))
        if item is None:
            return None
        reservation = UserNameReservation.of(item)
        if reservation.owner == OPERATOR or uid not in (None, reservation.uid):
            return None
        return await self._directory.member(reservation.owner)

    async def _admins(self, tenant: str) -> Recipients:
        """The admins who have chosen to hear of budgets, at most MOST_RECIPIENTS."""
        owners = list[str]()
        partition = tenant_key(tenant).pk
        async for item in all_items(
            lambda after: self._directory.store.query(
                ACCOUNTS, partition, sort=USER_NAMES, cursor=after, limit=min(PAGE, MOST_MEMBERS)
            )
        ):
            reservation = UserNameReservation.readable(item)
            if reservation is not None and reservation.owner != OPERATOR:
                owners.append(reservation.owner)
            if len(owners) >= MOST_MEMBERS:
                break
        found = list[Recipient]()
        for member in await self._directory.members(owners):
            if len(found) < MOST_RECIPIENTS and manages(member.role) and await self._may_get_mails(member):
                recipient = await self._recipient(member)
                if recipient.choices.budgets:
                    found.append(recipient)
        return Recipients(recipients=tuple(found))

    async def _may_get_mails(self, member: Member) -> bool:
        if member.disabled or member.deleted or member.kind != "person" or not member.email:
            return False
        return not await self._provisioned.deactivated(member.tenant, member.email)

    async def _recipient(self, member: Member) -> Recipient:
        choices = await self._notifications.of(member.id)
        return Recipient(member=member.id, address=member.email, choices=choices)

"""Tells all replicas which credentials were restricted or revoked, if no event of a cluster does."""

from collections.abc import Callable

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.revocation import Revocation
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.bus import BusUnavailable, Client, MessageRejected
from nats.aio.msg import Msg

log = structlog.get_logger()

type RevocationObserver = Callable[[TenantRef, Revocation], None]

EVERY_TENANT = "revocation.*"


class RevocationMessages:
    """Sends revocations, and passes those of all replicas to observers. A lost one counts once the cache expires."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._observers: list[RevocationObserver] = []

    def observe(self, observer: RevocationObserver) -> None:
        """Passes each revocation to an observer in this process. It must not raise."""
        self._observers.append(observer)

    async def follow(self) -> None:
        """Receives from now on, for as long as the connection is open."""
        await self._client.listen(EVERY_TENANT, self._receive)

    async def tell(self, ref: TenantRef, revocation: Revocation) -> None:
        """Tells all replicas. While NATS is away the message waits, or is logged as lost."""
        try:
            await bus.publish(self._client, subjects.revocation(ref), revocation)
        except (BusUnavailable, MessageRejected) as error:
            log.warning("revocation_not_told", tenant=ref.tenant, reason=str(error))

    async def _receive(self, message: Msg) -> None:
        try:
            ref = subjects.parse_tenant(message.subject)
            revocation = decode(Revocation, message.data, message.headers)
        except (InvalidMessage, UnknownSubject) as error:
            self._client.work(bus.bury(self._client, message, str(error)))
            return
        for observer in self._observers:
            observer(ref, revocation)

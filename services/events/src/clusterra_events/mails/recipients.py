"""Asks the gateway who gets a mail when it is sent, so that nothing it says of a person is older than a minute.

The events service has no right to read the records of people. It learns one address for each mail, and keeps it for
`KEPT_SECONDS`, so that the many events of one person's jobs are one request a minute.
"""

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.mails import ReadRecipients, Recipient, Recipients
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import call
from pydantic import ValidationError

from clusterra_events.mails.wanted import Audience

KEPT_SECONDS = 60.0
MOST_KEPT = 10_000
TIMEOUT_SECONDS = 5.0


class RecipientReads:
    """The people who may get mails, as the gateway has them."""

    def __init__(self, client: Client, *, kept_seconds: float = KEPT_SECONDS) -> None:
        self._client = client
        self._kept = BoundedCache[tuple[str, str, Audience], tuple[Recipient, ...]](MOST_KEPT, kept_seconds)

    async def of(self, ref: ClusterRef, audience: Audience) -> tuple[Recipient, ...]:
        """The people of an audience. Raises RpcFailed."""
        key = (ref.tenant, ref.cluster if audience.user else "", audience)
        if (kept := self._kept.get(key)) is not None:
            return kept
        try:
            request = ReadRecipients(cluster=ref.cluster, user=audience.user, uid=audience.uid)
        except ValidationError:
            return ()  # nobody of ours has such a name: a site has told it
        subject = subjects.mail_recipients(TenantRef(tenant=ref.tenant))
        answer = await call(self._client, subject, request, Recipients, timeout_seconds=TIMEOUT_SECONDS)
        self._kept.put(key, answer.recipients)
        return answer.recipients

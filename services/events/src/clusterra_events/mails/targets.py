"""What is visited for mails: one target for each tenant with clusters, in the form of a webhook.

So mails have the order, the retries, the progress and the leases of webhooks. The record is made here and stored
nowhere: it is the same in each replica, and no user can change it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from clusterra_contracts.identity import now
from clusterra_contracts.webhooks import DeliverFrom, Webhook, WebhookSecret

from clusterra_events.mails.wanted import KINDS
from clusterra_events.webhooks.definitions import OnChange

_ANY_ID = "0" * 16


def target_of(tenant: str, time: datetime) -> Webhook:
    """The target of a tenant. Its first mails are about events that were stored at `time` or later."""
    return Webhook(
        # Of each tenant another one, so that replicas share the tenants.
        id=f"wh_{hashlib.sha256(tenant.encode()).hexdigest()[:16]}",
        name="mails",
        url="mailto:",
        kinds=KINDS,
        arrays="digest",
        # Nothing is signed with it.
        secrets=(WebhookSecret(text=f"whsec_{'A' * 32}"),),
        deliver_from=DeliverFrom(id=_ANY_ID, time=time),
        created_by="events",
        created_at=time,
    )


class MailTargets:
    """The targets of the tenants that have clusters."""

    def __init__(self, tenants: Callable[[], Iterable[str]]) -> None:
        self._tenants = tenants
        self._began = now()
        self._targets: dict[str, dict[str, Webhook]] = {}
        self.on_change: OnChange = lambda _tenant, _webhooks: None

    @property
    def webhooks(self) -> Mapping[str, Mapping[str, Webhook]]:
        """Tenant -> id -> target."""
        tenants = set(self._tenants())
        if tenants != self._targets.keys():
            made = [(tenant, target_of(tenant, self._began)) for tenant in tenants]
            self._targets = {tenant: {each.id: each} for tenant, each in made}
        return self._targets

    def changed(self, tenant: str) -> None:
        """Nothing of a target changes."""

    async def is_current(self, _tenant: str, _webhook: Webhook) -> bool:
        """Whether a target is still as given: always."""
        return True

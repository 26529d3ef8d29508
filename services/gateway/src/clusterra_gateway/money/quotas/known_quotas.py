"""The quotas of tenants, as submits know them: read once, and again after a change.

Most tenants have none, and the query for them took a quarter of a submit. The replica that changes a quota forgets them
at once, and the others when the event of the change arrives. Where no event arrives, they are read again after
`KEPT_SECONDS`. What is used of a quota is never remembered: each reservation is conditional on it.
"""

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.bounded_cache import BoundedCache

from clusterra_gateway.money.quotas.reservations import Quotas, Reservations

KEPT_SECONDS = 15.0
"""As long as a credential is trusted without another check."""
MAX_TENANTS = 10_000
CHANGING = frozenset({"quota.changed", "quota.deleted"})
"""The kinds of events after which the quotas of a tenant are read again."""


class KnownQuotas:
    """The quotas of each tenant."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations
        self._known = BoundedCache[str, Quotas](MAX_TENANTS, KEPT_SECONDS)
        self._changes = 0
        """How often quotas were forgotten. What was read before the last time may be outdated."""

    async def of(self, tenant: str) -> Quotas:
        """All quotas of a tenant. Raises StoreError."""
        known = self._known.get(tenant)
        if known is None:
            changes = self._changes
            known = await self._reservations.quotas(tenant)
            if changes == self._changes:
                self._known.put(tenant, known)
        return known

    def forget(self, tenant: str) -> None:
        """Has the next submit read the quotas of a tenant again."""
        self._changes += 1
        self._known.pop(tenant)

    def on_event(self, ref: ClusterRef, _event: Event) -> None:
        """An event of `CHANGING` arrived."""
        self.forget(ref.tenant)

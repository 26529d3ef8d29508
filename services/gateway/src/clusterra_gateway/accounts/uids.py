"""Gives each member of a tenant a uid of their own."""

from clusterra_runtime.store.store import Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, uid_counter_key

FIRST_UID = 20001
"""The first uid of a person or a service account. Lower ones are for services, such as a cluster's operator."""


async def next_uid(store: Store, tenant: str) -> int:
    """A uid that nobody in the tenant has had, from an atomic counter."""
    counter = await store.write(Update(ACCOUNTS, uid_counter_key(tenant), add={"given": 1}))
    return FIRST_UID - 1 + int(str(counter.attributes["given"]))

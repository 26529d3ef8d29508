"""Agent keys: the header `X-Agent-Key` proves which cluster's agent sends a request. Only a key's hash is stored."""

import secrets

from aiohttp import web
from clusterra_contracts.agent_http import KEY_HEADER, is_key
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, Id
from clusterra_contracts.registry import SecretReference
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.store import Delete, Put, Write

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, agent_key_owner_key, current_agent_key_hash_key
from clusterra_gateway.accounts.records import Record
from clusterra_gateway.http.requests.errors import Conflict, Unauthenticated
from clusterra_gateway.identity.access.credentials import CredentialCache, secret_hash


class AgentKeyOwner(Record):
    """The cluster that an agent key belongs to."""

    tenant: Id
    cluster: Id
    slurm_key: SecretReference | None = None
    """Where the gateway finds the Slurm key that this cluster's agent gets."""

    @property
    def ref(self) -> ClusterRef:
        """The cluster."""
        return ClusterRef(tenant=self.tenant, cluster=self.cluster)


class CurrentKey(Record):
    """What a cluster knows of its agent keys."""

    hash: str
    older: tuple[str, ...] = ()
    """The hashes of keys before it that may still work, the newest first. The item of each has its end."""


ROTATED = frozenset({"cluster.agent_key_rotated"})
"""The kind of event after which a cluster's keys must be verified again."""


class AgentKeys:
    """Verifies agent keys, and caches a successful verification for 15 s.

    A key is not trusted beyond its end, nor after a rotation, which the cluster's events tell to all replicas, nor
    while the registry has no such cluster. So 15 s are the bound where an event is lost, and for the provision file.
    """

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._store = directory.store
        self._registry = registry
        self._verified: CredentialCache[AgentKeyOwner] = CredentialCache()

    def on_event(self, ref: ClusterRef, _event: Event) -> None:
        """Has the keys of this cluster be verified again: one was rotated on some replica."""
        self._verified.forget(lambda owner: owner.ref == ref)

    async def owner(self, request: web.Request) -> AgentKeyOwner:
        """The cluster whose agent key the request carries. Raises Unauthenticated."""
        given = request.headers.get(KEY_HEADER, "")
        if not is_key(given):
            raise Unauthenticated(
                f"{KEY_HEADER} must hold an agent key", hint="send the key exactly as it was generated"
            )
        key_hash = secret_hash(given)
        owner = self._verified.get(key_hash)
        if owner is None or owner.ref not in self._registry.clusters:
            forgotten = self._verified.forgotten
            item = await self._store.get(ACCOUNTS, agent_key_owner_key(key_hash))
            if item is None:
                raise Unauthenticated(
                    "this agent key is unknown or revoked", hint="provision the cluster with this key"
                )
            owner = AgentKeyOwner.of(item)
            self._verified.put(key_hash, owner, forgotten, expires_at=item.expires_at)
        return owner


async def put_slurm_key(directory: Directory, ref: ClusterRef, slurm_key: SecretReference | None) -> None:
    """Changes which Slurm key a cluster's agent gets with its present key. An older key gets the one before."""
    item = await directory.store.get(ACCOUNTS, current_agent_key_hash_key(ref))
    if item is not None:
        owner = AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster, slurm_key=slurm_key)
        await directory.replace(agent_key_owner_key(CurrentKey.of(item).hash), owner)


async def put_agent_key(directory: Directory, owner: AgentKeyOwner, key_hash: str | None) -> str | None:
    """Makes the key with this hash the only one of a cluster; None revokes the cluster's key.

    Returns what was done: `set`, `replaced`, `changed` or `revoked`; None for nothing. Raises Conflict for the key of
    another cluster, TransactionCancelled when another writer was faster.
    """
    store = directory.store
    item = await store.get(ACCOUNTS, current_agent_key_hash_key(owner.ref))
    known_key = None if item is None else CurrentKey.of(item)
    current = None if known_key is None else known_key.hash
    if key_hash is not None and key_hash == current:
        return "changed" if await directory.replace(agent_key_owner_key(key_hash), owner) else None
    if key_hash == current:
        return None
    writes: list[Write] = []
    if key_hash is not None:
        known = await store.get(ACCOUNTS, agent_key_owner_key(key_hash))
        if known is not None and AgentKeyOwner.of(known).ref != owner.ref:
            raise Conflict(
                f"the agent key of {owner.ref} is already that of {AgentKeyOwner.of(known).ref}",
                hint="make one for each cluster: `clusterra-admin secrets agent-key`",
            )
        unused = Absent() if known is None else VersionIs(known.version)
        writes.append(Put(ACCOUNTS, agent_key_owner_key(key_hash), owner.attributes(), unused))
        unchanged = Absent() if item is None else VersionIs(item.version)
        current_key = CurrentKey(hash=key_hash).attributes()
        writes.append(Put(ACCOUNTS, current_agent_key_hash_key(owner.ref), current_key, unchanged))
    elif item is not None:
        writes.append(Delete(ACCOUNTS, current_agent_key_hash_key(owner.ref), VersionIs(item.version)))
    if known_key is not None:
        replaced = {known_key.hash, *known_key.older} - {key_hash}
        writes.extend(Delete(ACCOUNTS, agent_key_owner_key(each)) for each in sorted(replaced))
    await store.transact(writes, token=f"agent-key-{secrets.token_hex(16)}")
    return "revoked" if key_hash is None else "set" if current is None else "replaced"

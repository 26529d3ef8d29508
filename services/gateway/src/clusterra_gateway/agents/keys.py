"""Which cluster an agent speaks for: by the key in `X-Agent-Key`, of which only the hash is kept."""

import secrets
import time
from collections import OrderedDict
from hashlib import sha256

from aiohttp import web
from clusterra_contracts.agent_http import KEY_HEADER, is_key
from clusterra_contracts.identity import ClusterRef, Id
from clusterra_contracts.registry import SecretReference
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import Delete, Put, Store, Write

from clusterra_gateway.accounts.directory import ACCOUNTS, Directory
from clusterra_gateway.accounts.records import Record
from clusterra_gateway.http.errors import Conflict, Unauthenticated
from clusterra_gateway.identity.authentication import FRESH_SECONDS, MAX_CACHED


class AgentKey(Record):
    """What a key's hash stands for."""

    tenant: Id
    cluster: Id
    slurm_key: SecretReference | None = None
    """Where the Slurm key is that the agent of this cluster gets."""

    @property
    def ref(self) -> ClusterRef:
        """The one cluster whose agent has the key."""
        return ClusterRef(tenant=self.tenant, cluster=self.cluster)


class _CurrentKey(Record):
    hash: str


class AgentKeys:
    """Verifies keys, and remembers for a short while that it did: a revoked key is refused within 15 s."""

    def __init__(self, directory: Directory) -> None:
        self._store: Store = directory.store
        self._fresh: OrderedDict[str, tuple[AgentKey, float]] = OrderedDict()

    async def holder(self, request: web.Request) -> AgentKey:
        """Whose agent makes this request. Raises Unauthenticated."""
        given = request.headers.get(KEY_HEADER, "")
        if not is_key(given):
            raise Unauthenticated(f"this needs an agent's key in {KEY_HEADER}", hint="send it exactly as it was made")
        digest = hash_of(given)
        entry = self._fresh.get(digest)
        if entry is None or entry[1] <= time.monotonic():
            self._fresh.pop(digest, None)
            item = await self._store.get(ACCOUNTS, _hash_key(digest))
            if item is None:
                raise Unauthenticated("this agent's key is not valid (any more)", hint="provision the cluster with it")
            entry = (AgentKey.of(item), time.monotonic() + FRESH_SECONDS)
            self._fresh[digest] = entry
            if len(self._fresh) > MAX_CACHED:
                self._fresh.popitem(last=False)
        return entry[0]


async def put_agent_key(directory: Directory, record: AgentKey, key_hash: str | None) -> str | None:
    """Make the key with this hash the only one of a cluster, or revoke what it has; what was done, None for nothing.

    Raises Conflict for a key that another cluster has, TransactionCancelled when overtaken.
    """
    store = directory.store
    current_key = Key(f"cluster#{record.ref.key}", "agent-key")
    item = await store.get(ACCOUNTS, current_key)
    current = None if item is None else _CurrentKey.of(item).hash
    if key_hash is not None and key_hash == current:
        return "changed" if await directory.replace(_hash_key(key_hash), record) else None
    if key_hash == current:
        return None
    writes: list[Write] = []
    if key_hash is not None:
        known = await store.get(ACCOUNTS, _hash_key(key_hash))
        if known is not None:
            raise Conflict(
                f"the agent key of {record.ref} is that of {AgentKey.of(known).ref}",
                hint="make one for each cluster: `python -m clusterra_gateway.provision agent-key`",
            )
        writes.append(Put(ACCOUNTS, _hash_key(key_hash), record.attributes(), Absent()))
        unchanged = Absent() if item is None else VersionIs(item.version)
        writes.append(Put(ACCOUNTS, current_key, _CurrentKey(hash=key_hash).attributes(), unchanged))
    elif item is not None:
        writes.append(Delete(ACCOUNTS, current_key, VersionIs(item.version)))
    if current is not None:
        writes.append(Delete(ACCOUNTS, _hash_key(current)))
    await store.transact(writes, token=f"agent-key-{secrets.token_hex(16)}")
    return "revoked" if key_hash is None else "set" if current is None else "replaced"


def hash_of(key: str) -> str:
    """What is kept of a key, which has 256 random bits, so that a plain hash is enough."""
    return sha256(key.encode()).hexdigest()


def _hash_key(digest: str) -> Key:
    return Key(f"agent-key#{digest}", "agent-key")

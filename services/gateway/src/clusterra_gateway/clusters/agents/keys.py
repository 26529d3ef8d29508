"""Agent keys: the header `X-Agent-Key` proves which cluster's agent sends a request. Only a key's hash is stored.

A rotation over HTTP leaves no gap: older keys keep working until their promised end. Whoever loses the answer to a
rotation asks for another one. The agent may then still use the key of two rotations ago. So a rotation ends no key
early, unless the request says so.
"""

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from aiohttp import web
from clusterra_contracts.agent_http import KEY_HEADER, is_key, new_key
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import ClusterRef, Id, Moment, now
from clusterra_contracts.registry import SecretReference
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update, Write
from pydantic import Field

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, agent_key_owner_key, current_agent_key_hash_key
from clusterra_gateway.accounts.records import Record
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.errors import Conflict, Unauthenticated
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, body
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce, ShownOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.credentials import CredentialCache, secret_hash
from clusterra_gateway.identity.access.limits import WrongTokens
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes


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

    def __init__(self, directory: Directory, registry: Registry, addresses: ClientAddresses) -> None:
        self._store = directory.store
        self._registry = registry
        self._addresses = addresses
        self._verified: CredentialCache[AgentKeyOwner] = CredentialCache()
        self._wrong = WrongTokens()

    def on_event(self, ref: ClusterRef, _event: Event) -> None:
        """Has the keys of this cluster be verified again: one was rotated on some replica."""
        self._verified.forget(lambda owner: owner.ref == ref)

    async def owner(self, request: web.Request) -> AgentKeyOwner:
        """The cluster whose agent key the request carries. Raises Unauthenticated, TooManyRequests."""
        given = request.headers.get(KEY_HEADER, "")
        if not is_key(given):
            raise Unauthenticated(
                f"{KEY_HEADER} must hold an agent key", hint="send the key exactly as it was generated"
            )
        key_hash = secret_hash(given)
        owner = self._verified.get(key_hash)
        if owner is None or owner.ref not in self._registry.clusters:
            forgotten, address = self._verified.forgotten, self._addresses.network_of(request)
            self._wrong.admit(address, key_hash)
            item = await self._store.get(ACCOUNTS, agent_key_owner_key(key_hash))
            if item is None:
                self._wrong.count(address)
                raise Unauthenticated(
                    "this agent key is unknown or revoked", hint="provision the cluster with this key"
                )
            self._wrong.remember(key_hash)
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


DAY = 86_400
MAX_KEYS = 4
"""How many keys of a cluster may work at a time."""

api = cluster_routes(changes=Needs("clusters:write", "admin"))


class NewAgentKey(Body):
    """How long the present key goes on working, so that the agent can be given the new one without a gap.

    With 0 it stops working at once, and so do all keys before it.
    """

    overlap_seconds: Annotated[int, Field(ge=0, le=7 * DAY), NotBoolean] = DAY


class MadeAgentKey(ShownOnce):
    """A new agent key, which is shown only this once; `id` is the cluster's. The one before works until then."""

    agent_key: str
    previous_valid_until: Moment


class AgentKeyRotation:
    """The handler of new agent keys."""

    def __init__(self, directory: Directory, once: AnswerOnce) -> None:
        self._directory = directory
        self._once = once

    @api.post(
        "clusters_agent_key",
        f"{CLUSTER}/agent-keys",
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewAgentKey,
        result=MadeAgentKey,
    )
    async def new_agent_key(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes a new agent key for the cluster. The key before it works for `overlap_seconds` more.

        Older ones work as long as was promised for them. With `overlap_seconds` 0 all of them stop at once. At most
        four keys work at a time: a further rotation is 409, and tells until when. A provision file that names an agent
        key has the last word: put the new key there before it is applied again.
        """
        wanted = await body(request, NewAgentKey)
        act = partial(rotated, self._directory, ref, wanted, actor=caller.member.user)
        return await self._once.answer(request, caller.owner_key, wanted, act)


async def rotated(directory: Directory, ref: ClusterRef, wanted: NewAgentKey, *, actor: str) -> MadeAgentKey:
    """Makes a new agent key for a cluster. Raises Conflict."""
    key, overlap = new_key(), timedelta(seconds=wanted.overlap_seconds)
    until = await rotate_agent_key(directory, ref, key, actor=actor, overlap=overlap)
    return MadeAgentKey(id=ref.cluster, agent_key=key, previous_valid_until=until)


async def rotate_agent_key(
    directory: Directory, ref: ClusterRef, key: str, *, actor: str, overlap: timedelta
) -> datetime:
    """Makes a key the current one of a cluster. Returns until when the one before works.

    The older ones work until their own ends. Without an overlap all before it stop at once. Raises Conflict when
    another writer was faster, and when too many keys would work.
    """
    store, current_key = directory.store, current_agent_key_hash_key(ref)
    until = now().replace(microsecond=0) + overlap
    item = await store.get(ACCOUNTS, current_key)
    current = None if item is None else CurrentKey.of(item)
    hashes = () if current is None else (current.hash, *current.older)
    found = [await store.get(ACCOUNTS, agent_key_owner_key(each)) for each in hashes]
    before = found[0] if found else None
    slurm_key = None if before is None else AgentKeyOwner.of(before).slurm_key
    owner = AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster, slurm_key=slurm_key)
    live = {each: known for each, known in zip(hashes, found, strict=True) if known is not None}
    if overlap and len(live) >= MAX_KEYS:
        raise _too_many(live.values())
    made = CurrentKey(hash=secret_hash(key), older=tuple(live) if overlap else ())
    fact = AdminFact(kind="cluster.agent_key_rotated", actor=actor, subject=ref.cluster)
    told = [cluster_event(ref, fact, version=now().isoformat())]
    change: Put | Update
    if item is None:
        change = Put(ACCOUNTS, current_key, made.attributes(), Absent())
    else:
        change = Update(ACCOUNTS, current_key, set=made.attributes(), condition=VersionIs(item.version))
    others: list[Write] = [Put(ACCOUNTS, agent_key_owner_key(made.hash), owner.attributes(), Absent())]
    if not overlap:
        others.extend(Delete(ACCOUNTS, each.key) for each in live.values())
    elif before is not None:
        ends = int(until.timestamp())
        others.append(Update(ACCOUNTS, before.key, condition=VersionIs(before.version), expires_at=ends))
    try:
        await directory.outbox.transact(change, told, others, token=f"agent-key-{made.hash}")
    except TransactionCancelled:
        raise Conflict("the agent key is being changed by somebody else", hint="try again") from None
    return until


def _too_many(live: Iterable[Item]) -> Conflict:
    first_end = min(each.expires_at for each in live if each.expires_at is not None)
    end = datetime.fromtimestamp(first_end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Conflict(
        f"{MAX_KEYS} agent keys of this cluster work already, the most allowed",
        hint=f"wait until {end}, when the first of them ends, or send overlap_seconds 0, which ends them all at once",
    )

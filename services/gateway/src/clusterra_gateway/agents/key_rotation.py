"""Replaces a cluster's agent key over HTTP without a gap: the key before it goes on working for a while."""

import time
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

from aiohttp import web
from clusterra_contracts.agent_http import new_key
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, Moment, now
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.outbox_item import with_messages
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update, Write
from pydantic import Field

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, agent_key_owner_key, current_agent_key_hash_key
from clusterra_gateway.agents.keys import AgentKeyOwner, CurrentKey
from clusterra_gateway.http.errors import Conflict
from clusterra_gateway.http.parameters import Body, NotBoolean, body
from clusterra_gateway.http.route import Route
from clusterra_gateway.idempotency.answer_once import AnswerOnce, ShownOnce
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.credentials import secret_hash
from clusterra_gateway.identity.private_route import CLUSTER, CLUSTER_ID, ClusterRoute

DAY = 86_400


class NewAgentKey(Body):
    """How long the present key goes on working, so that the agent can be given the new one without a gap."""

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

    async def new_agent_key(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes a new agent key for the cluster. The key before it works for `overlap_seconds` more.

        An older one stops working at once. A provision file that names an agent key has the last word: put the new key
        there before it is applied again.
        """
        wanted = await body(request, NewAgentKey)
        act = partial(rotated, self._directory, ref, wanted, actor=caller.member.user)
        return await self._once.answer(request, caller.owner_key, wanted, act)


async def rotated(directory: Directory, ref: ClusterRef, wanted: NewAgentKey, *, actor: str) -> MadeAgentKey:
    """Makes a new agent key for a cluster. Raises Conflict."""
    key, until = new_key(), now().replace(microsecond=0) + timedelta(seconds=wanted.overlap_seconds)
    await rotate_agent_key(directory, ref, key, actor=actor, until=until)
    return MadeAgentKey(id=ref.cluster, agent_key=key, previous_valid_until=until)


async def rotate_agent_key(directory: Directory, ref: ClusterRef, key: str, *, actor: str, until: datetime) -> None:
    """Makes a key the current one of a cluster. The one before works until then, and an older one no longer.

    Raises Conflict when another writer was faster.
    """
    store, current_key = directory.store, current_agent_key_hash_key(ref)
    item = await store.get(ACCOUNTS, current_key)
    current = None if item is None else CurrentKey.of(item)
    before = None if current is None else await store.get(ACCOUNTS, agent_key_owner_key(current.hash))
    slurm_key = None if before is None else AgentKeyOwner.of(before).slurm_key
    owner = AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster, slurm_key=slurm_key)
    made = CurrentKey(hash=secret_hash(key), previous=None if current is None else current.hash)
    fact = AdminFact(kind="cluster.agent_key_rotated", actor=actor, subject=ref.cluster)
    told = [cluster_event(ref, fact, version=now().isoformat())]
    writes: list[Write] = [Put(ACCOUNTS, agent_key_owner_key(made.hash), owner.attributes(), Absent())]
    if item is None or current is None:
        writes.append(with_messages(Put(ACCOUNTS, current_key, made.attributes(), Absent()), told, now=time.time()))
    else:
        put = Update(ACCOUNTS, current_key, set=made.attributes(), condition=VersionIs(item.version))
        writes.append(with_messages(put, told, now=time.time()))
        if current.previous is not None:
            writes.append(Delete(ACCOUNTS, agent_key_owner_key(current.previous)))
    if before is not None:
        expires_at = int(until.timestamp())
        writes.append(Update(ACCOUNTS, before.key, condition=VersionIs(before.version), expires_at=expires_at))
    try:
        await store.transact(writes, token=f"agent-key-{made.hash}")
    except TransactionCancelled:
        raise Conflict("the agent key is being changed by somebody else", hint="try again") from None
    await directory.outbox.send(ACCOUNTS, current_key)


def routes(access: Access, directory: Directory, once: AnswerOnce) -> tuple[Route, ...]:
    """The route of new agent keys."""
    return (
        ClusterRoute(
            "clusters_agent_key",
            "POST",
            f"{CLUSTER}/agent-keys",
            AgentKeyRotation(directory, once).new_agent_key,
            access=access,
            scope="clusters:write",
            role="admin",
            status=201,
            parameters=(CLUSTER_ID, IDEMPOTENCY_KEY),
            body=NewAgentKey,
            result=MadeAgentKey,
        ),
    )

"""Idempotency keys: the same key makes one job, however often the request is sent within 24 hours."""

import time
from dataclasses import dataclass

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_runtime.store.condition import Absent, Compare, Missing, Present
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, Table, Update

from clusterra_gateway.http.errors import KeyReused

IDEMPOTENCY = Table("idempotency")
KEEP_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Scope:
    """A key counts for one person on one cluster."""

    ref: ClusterRef
    member: str
    key: str

    @property
    def item(self) -> Key:
        """Where it is stored."""
        return Key(f"{self.ref.key}#{self.member}#{self.key}", "submit")


class IdempotencyKeys:
    """A key is claimed before the call that it protects and holds the answer after it.

    While there is no answer (the call runs, or whoever made it died) the same request is let through again: the
    proxy finds the job by the key. What was refused for good gives the key back, for there is no job.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(self, scope: Scope, request_hash: str) -> Submitted | None:
        """Take the key for a request; the answer when there is one. Raises KeyReused for another request's key."""
        expires_at = int(time.time()) + KEEP_SECONDS
        put = Put(IDEMPOTENCY, scope.item, {"request": request_hash}, Absent(), expires_at)
        try:
            await self._store.write(put)
        except ConditionFailed as taken:
            if taken.current is None:
                return await self.claim(scope, request_hash)  # it expired in between
            if taken.current.attributes["request"] != request_hash:
                raise KeyReused(
                    "this Idempotency-Key was used for another request",
                    hint="make a new key for each new job; repeat a key only with the very same body",
                ) from None
            answer = taken.current.attributes.get("answer")
            return None if answer is None else Submitted.model_validate_json(str(answer))
        return None

    async def settle(self, scope: Scope, request_hash: str, answer: Submitted) -> None:
        """Keep the answer for repetitions."""
        same = Present() & Compare("request", "==", request_hash)
        try:
            await self._store.write(
                Update(IDEMPOTENCY, scope.item, set={"answer": answer.model_dump_json()}, condition=same)
            )
        except ConditionFailed:
            return  # expired meanwhile: there is nothing left to answer for

    async def release(self, scope: Scope, request_hash: str) -> None:
        """Give the key back, unless it has an answer or another request by now."""
        try:
            await self._store.delete(
                Delete(IDEMPOTENCY, scope.item, Compare("request", "==", request_hash) & Missing("answer"))
            )
        except ConditionFailed:
            return

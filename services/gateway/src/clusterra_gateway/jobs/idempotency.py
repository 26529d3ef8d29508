"""Idempotency keys: a submit that is sent again with the same key within 24 hours makes no second job."""

import time
from dataclasses import dataclass

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_runtime.store.condition import Absent, Missing, Present, compare
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, Table, Update

from clusterra_gateway.http.errors import KeyReused

IDEMPOTENCY = Table("idempotency")
KEEP_SECONDS = 24 * 3600


@dataclass(frozen=True)
class ScopedKey:
    """A client's key. It is valid for one person on one cluster."""

    ref: ClusterRef
    member: str
    key: str

    @property
    def item(self) -> Key:
        """The key of its item."""
        return Key(f"{self.ref.key}#{self.member}#{self.key}", "submit")


class IdempotencyKeys:
    """Reserves each key before the request that it protects, and stores the request's answer afterwards.

    There is no answer while the request still runs, or when its process died. Then the same request is passed to the
    proxy again, which finds the job by the key. A request that certainly failed made no job, so it releases the key.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def reserve(self, key: ScopedKey, request_hash: str) -> Submitted | None:
        """Reserves the key for a request, and returns its answer where there already is one.

        Raises KeyReused for the key of a different request.
        """
        expires_at = int(time.time()) + KEEP_SECONDS
        put = Put(IDEMPOTENCY, key.item, {"request": request_hash}, Absent(), expires_at)
        try:
            await self._store.write(put)
        except ConditionFailed as taken:
            if taken.current is None:
                return await self.reserve(key, request_hash)  # the key expired in the meantime
            if taken.current.attributes["request"] != request_hash:
                raise KeyReused(
                    "this Idempotency-Key was used for a different request",
                    hint="use a new key for each new job; send a key again only with exactly the same body",
                ) from None
            answer = taken.current.attributes.get("answer")
            return None if answer is None else Submitted.model_validate_json(str(answer))
        return None

    async def complete(self, key: ScopedKey, request_hash: str, answer: Submitted) -> None:
        """Stores the answer, for when the request is sent again."""
        same = Present() & compare("request", "==", request_hash)
        try:
            await self._store.write(
                Update(IDEMPOTENCY, key.item, set={"answer": answer.model_dump_json()}, condition=same)
            )
        except ConditionFailed:
            return  # the key has expired: nobody can ask for this answer any more

    async def release(self, key: ScopedKey, request_hash: str) -> None:
        """Makes the key usable for other requests, unless it has an answer or belongs to another request by now."""
        try:
            await self._store.delete(
                Delete(IDEMPOTENCY, key.item, compare("request", "==", request_hash) & Missing("answer"))
            )
        except ConditionFailed:
            return

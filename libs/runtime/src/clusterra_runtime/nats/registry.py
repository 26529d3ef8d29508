"""The registry: the bindings of all clusters, a copy in memory of the KV bucket.

It uses neither a consumer nor a KV watch, because those miss changes for up to 17 s after a restart of the server.
Instead, a message to the bucket is a hint to read the entries after the last known sequence. Everything is read again
after every reconnect and every 30 s.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import structlog
from clusterra_contracts.bus.envelope import InvalidMessage, decode, encode
from clusterra_contracts.bus.topology import REGISTRY
from clusterra_contracts.heartbeat import max_decoded_bytes
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from nats.aio.msg import Msg

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.nats.binding import check_binding
from clusterra_runtime.nats.bus import MessageRejected, dead_letter, store
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import Stored, last_stored, replay

log = structlog.get_logger(__name__)

REREAD_SECONDS = 30.0
RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 10.0
HINT_ATTEMPTS = 5
"""A hint may arrive before the stream has stored what it announces."""
PUT_ATTEMPTS = 8
"""A replica of the stream that a read asks may be behind for a moment."""

_STREAM = f"KV_{REGISTRY.name}"
_PREFIX = f"$KV.{REGISTRY.name}."
_OPERATION = "KV-Operation"


_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_WRONG_SEQUENCE = 10071
"""JetStream's `err_code` for a subject whose last message is not the expected one."""


class _Overtaken(Exception):
    """Another writer wrote the entry between the read and the write."""


class _NothingNew(Exception):
    """The stream has no entry after the last one that was read."""


type OnChange = Callable[[ClusterRef, ClusterBinding | None], None]


class Registry:
    """The bindings of all clusters. A cluster whose entry cannot be parsed keeps its last valid binding.

    `on_change` callbacks run on the event loop with each new binding, and with None when a cluster was removed. They
    also run, with the binding that is kept or None, when `unreadable` has changed.
    """

    def __init__(self) -> None:
        self.on_change: list[OnChange] = []
        self._clusters: dict[ClusterRef, ClusterBinding] = {}
        self._unreadable: dict[ClusterRef, str] = {}
        self._revisions: dict[str, int] = {}
        self._sequence = 0
        self._hint = asyncio.Event()
        self._loaded = asyncio.Event()
        self._stale = True
        self._task: asyncio.Task[None] | None = None

    @property
    def clusters(self) -> Mapping[ClusterRef, ClusterBinding]:
        """A live view of all bindings."""
        return MappingProxyType(self._clusters)

    @property
    def unreadable(self) -> Mapping[ClusterRef, str]:
        """A live view of the clusters whose newest entry cannot be parsed, with the reason."""
        return MappingProxyType(self._unreadable)

    def get(self, ref: ClusterRef) -> ClusterBinding | None:
        """The binding of a cluster; None if the cluster does not exist."""
        return self._clusters.get(ref)

    def max_heartbeat_bytes(self, ref: ClusterRef) -> int:
        """The largest heartbeat of a cluster that is read, by the number of workers that it may have."""
        binding = self.get(ref)
        return max_decoded_bytes(0 if binding is None else binding.policy.max_workers)

    async def start(self, client: Client) -> None:
        """Read the whole bucket, waiting for it without limit, and follow it from then on."""
        self._task = asyncio.create_task(self._follow(client), name="registry")
        await self._loaded.wait()

    async def stop(self) -> None:
        """Stop following the bucket."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, client: Client) -> None:
        subscription = await client.subscribe(f"{_PREFIX}>", cb=self._on_hint)
        forget = client.on_reconnect(self._on_reconnect)
        backoff = Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        try:
            while True:
                try:
                    await self._read(client)
                except BusUnavailable as error:
                    log.warning("registry_not_read", reason=str(error))
                    self._stale = True
                    await backoff.pause()
                    continue
                except Exception:
                    # Without this task, no change of any cluster would be seen until the process is restarted.
                    log.exception("registry_reader_failed")
                    self._stale = True
                    await asyncio.sleep(REREAD_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311
                    continue
                self._loaded.set()
                backoff.succeeded()
                await self._wait()
        finally:
            forget()
            if not client.is_closed and not client.is_draining:
                await subscription.unsubscribe()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(REREAD_SECONDS):
                await self._hint.wait()
        except TimeoutError:
            self._stale = True

    async def _on_hint(self, _message: Msg) -> None:
        self._hint.set()

    def _on_reconnect(self) -> None:
        self._stale = True
        self._hint.set()

    async def _read(self, client: Client) -> None:
        self._hint.clear()
        if self._stale:
            self._stale = False
            await self._read_all(client)
            return
        with suppress(_NothingNew):
            backoff = Backoff(0.02, 1.0, growth=5)
            await retry(lambda: self._read_new(client), backoff, on=_NothingNew, attempts=HINT_ATTEMPTS)

    async def _read_new(self, client: Client) -> None:
        before = self._sequence
        async for entry in replay(client, _STREAM, f"{_PREFIX}>", after=before):
            self._take(client, entry)
        if self._sequence == before:
            raise _NothingNew

    async def _read_all(self, client: Client) -> None:
        present: set[str] = set()
        self._sequence = 0
        async for entry in replay(client, _STREAM, f"{_PREFIX}>"):
            present.add(entry.subject)
            self._take(client, entry)
        for subject in [known for known in self._revisions if known not in present]:
            # The replay misses a key that is written meanwhile, so check that each missing key is really absent.
            if not [entry async for entry in replay(client, _STREAM, subject)]:
                del self._revisions[subject]
                if (ref := _ref(subject)) is not None:
                    self._set(ref, None)

    def _take(self, client: Client, entry: Stored) -> None:
        self._sequence = max(self._sequence, entry.sequence)
        if self._revisions.get(entry.subject) == entry.sequence:
            return
        self._revisions[entry.subject] = entry.sequence
        ref = _ref(entry.subject)
        if ref is None:
            client.work(_bury(client, entry, "the key names no valid tenant and cluster"))
            return
        try:
            deleted = _OPERATION in entry.headers
            self._set(ref, None if deleted else decode(ClusterBinding, entry.body, dict(entry.headers)))
        except InvalidMessage as error:
            client.work(_bury(client, entry, str(error)))
            self._set(ref, self._clusters.get(ref), str(error))

    def _set(self, ref: ClusterRef, binding: ClusterBinding | None, unreadable: str = "") -> None:
        if self._clusters.get(ref) == binding and self._unreadable.get(ref, "") == unreadable:
            return
        self._clusters.pop(ref, None)
        self._unreadable.pop(ref, None)
        if binding is not None:
            self._clusters[ref] = binding
        if unreadable:
            self._unreadable[ref] = unreadable
        for callback in tuple(self.on_change):
            try:
                callback(ref, binding)
            except Exception:
                log.exception("registry_callback_failed", tenant=ref.tenant, cluster=ref.cluster)


def _ref(subject: str) -> ClusterRef | None:
    try:
        return ClusterRef.from_key(subject.removeprefix(_PREFIX))
    except ValueError:
        return None


async def _bury(client: Client, entry: Stored, reason: str) -> None:
    origin = f"{_STREAM}-{entry.sequence}"
    try:
        await dead_letter(client, entry.subject, entry.body, entry.headers, reason, origin=origin)
    except (BusUnavailable, MessageRejected) as error:
        log.error("dead_letter_lost", subject=entry.subject, reason=str(error))  # noqa: TRY400


async def put_binding(client: Client, ref: ClusterRef, binding: ClusterBinding, *, over_newer: bool = False) -> bool:
    """Write a cluster's binding for the other services; only the gateway and a restore do. Returns whether it wrote.

    A newer version stays, so that a writer who was held up undoes no change; `over_newer` replaces that one, too, which
    a restore wants. Raises InvalidBinding for one that no service could work with, and else as `bus.publish_durable`
    does.
    """
    check_binding(binding)
    subject, (body, headers) = f"{_PREFIX}{ref.key}", encode(binding)

    async def put() -> bool:
        found = await last_stored(client, _STREAM, subject)
        if found is not None and not over_newer and _version(found) > binding.version:
            log.info("newer_binding_kept", tenant=ref.tenant, cluster=ref.cluster, version=binding.version)
            return False
        await _store_after(client, subject, body, headers, 0 if found is None else found.sequence)
        return True

    try:
        return await retry(put, Backoff(0.04, 1.0), on=_Overtaken, attempts=PUT_ATTEMPTS)
    except _Overtaken as error:
        raise BusUnavailable(f"{subject}: others wrote it {PUT_ATTEMPTS} times meanwhile; write it again") from error


async def _store_after(client: Client, subject: str, body: bytes, headers: Mapping[str, str], sequence: int) -> None:
    """Store a message if the last one on its subject still has this sequence, 0 for none. Raises _Overtaken."""
    try:
        await store(client, subject, body, {**headers, _EXPECTED: str(sequence)})
    except MessageRejected as error:
        if error.code == _WRONG_SEQUENCE:
            raise _Overtaken from error
        raise


def _version(entry: Stored) -> int:
    """The version of a stored binding; 0 for a removed cluster and for an entry that cannot be parsed."""
    if _OPERATION in entry.headers:
        return 0
    try:
        return decode(ClusterBinding, entry.body, dict(entry.headers)).version
    except InvalidMessage:
        return 0


async def delete_binding(client: Client, ref: ClusterRef) -> None:
    """Remove a cluster from the registry; only the gateway does. Raises as `bus.publish_durable` does."""
    await store(client, f"{_PREFIX}{ref.key}", b"", {_OPERATION: "DEL"})

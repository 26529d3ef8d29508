"""The registry: every cluster's binding, kept in memory as the KV bucket has it.

No consumer and no KV watch stand behind it: those go blind for up to 17 s when the server restarts. What is
published to the bucket is only a hint to read on from the last sequence; the connection's renewal is another; and
every 30 s everything is read again.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import stamina
import structlog
from clusterra_contracts.bus.envelope import InvalidMessage, decode, encode
from clusterra_contracts.bus.topology import REGISTRY
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from nats.aio.msg import Msg

from clusterra_runtime.nats.bus import MessageRefused, dead_letter, store
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import Stored, replay

log = structlog.get_logger(__name__)

REREAD_SECONDS = 30.0
RETRY_SECONDS = 1.0
HINT_ATTEMPTS = 5
"""A hint may arrive before the stream has stored what it announces."""

_STREAM = f"KV_{REGISTRY.name}"
_PREFIX = f"$KV.{REGISTRY.name}."
_OPERATION = "KV-Operation"


class _NothingNew(Exception):
    """The stream has no entry after the last one that was read."""


type OnChange = Callable[[ClusterRef, ClusterBinding | None], None]


class Registry:
    """The bindings of all clusters. What cannot be read keeps its last good state.

    `on_change` callbacks are called on the event loop with each new binding, and with None when a cluster is gone.
    """

    def __init__(self) -> None:
        self.on_change: list[OnChange] = []
        self._clusters: dict[ClusterRef, ClusterBinding] = {}
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

    def get(self, ref: ClusterRef) -> ClusterBinding | None:
        """A cluster's binding, None when there is no such cluster."""
        return self._clusters.get(ref)

    async def start(self, client: Client) -> None:
        """Read everything, waiting for the bucket as long as it takes, and follow it from then on."""
        self._task = asyncio.create_task(self._follow(client), name="registry")
        await self._loaded.wait()

    async def stop(self) -> None:
        """Follow the bucket no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, client: Client) -> None:
        subscription = await client.subscribe(f"{_PREFIX}>", cb=self._hinted)
        forget = client.on_reconnect(self._renewed)
        try:
            while True:
                try:
                    await self._catch_up(client)
                except BusUnavailable as error:
                    log.warning("registry_not_read", reason=str(error))
                    self._stale = True
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                self._loaded.set()
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

    async def _hinted(self, _message: Msg) -> None:
        self._hint.set()

    def _renewed(self) -> None:
        self._stale = True
        self._hint.set()

    async def _catch_up(self, client: Client) -> None:
        self._hint.clear()
        if self._stale:
            self._stale = False
            await self._read_all(client)
            return
        with suppress(_NothingNew):
            async for attempt in stamina.retry_context(
                on=_NothingNew,
                attempts=HINT_ATTEMPTS,
                timeout=None,
                wait_initial=0.01,
                wait_max=1.0,
                wait_jitter=0.01,
                wait_exp_base=5,
            ):
                with attempt:
                    await self._read_new(client)

    async def _read_new(self, client: Client) -> None:
        before = self._sequence
        async for entry in replay(client, _STREAM, f"{_PREFIX}>", after=before):
            self._take(client, entry)
        if self._sequence == before:
            raise _NothingNew

    async def _read_all(self, client: Client) -> None:
        seen: set[str] = set()
        self._sequence = 0
        async for entry in replay(client, _STREAM, f"{_PREFIX}>"):
            seen.add(entry.subject)
            self._take(client, entry)
        for subject in [known for known in self._revisions if known not in seen]:
            # A key that is written while we read moves behind what we have read: only its own absence counts.
            if not [entry async for entry in replay(client, _STREAM, subject)]:
                del self._revisions[subject]
                self._set(subject, None)

    def _take(self, client: Client, entry: Stored) -> None:
        self._sequence = max(self._sequence, entry.sequence)
        if self._revisions.get(entry.subject) == entry.sequence:
            return
        self._revisions[entry.subject] = entry.sequence
        try:
            deleted = _OPERATION in entry.headers
            binding = None if deleted else decode(ClusterBinding, entry.body, dict(entry.headers))
            self._set(entry.subject, binding)
        except (InvalidMessage, ValueError) as error:
            client.work(_bury(client, entry, str(error)))

    def _set(self, subject: str, binding: ClusterBinding | None) -> None:
        ref = ClusterRef.from_key(subject.removeprefix(_PREFIX))
        if self._clusters.get(ref) == binding:
            return
        if binding is None:
            del self._clusters[ref]
        else:
            self._clusters[ref] = binding
        for callback in tuple(self.on_change):
            try:
                callback(ref, binding)
            except Exception:
                log.exception("registry_callback_failed", tenant=ref.tenant, cluster=ref.cluster)


async def _bury(client: Client, entry: Stored, reason: str) -> None:
    origin = f"{_STREAM}-{entry.sequence}"
    try:
        await dead_letter(client, entry.subject, entry.body, entry.headers, reason, origin=origin)
    except (BusUnavailable, MessageRefused) as error:
        log.error("dead_letter_lost", subject=entry.subject, reason=str(error))  # noqa: TRY400


async def put_binding(client: Client, ref: ClusterRef, binding: ClusterBinding) -> None:
    """Project a cluster's binding for the others; only the gateway does. Raises as `bus.publish_durable` does."""
    body, headers = encode(binding)
    await store(client, f"{_PREFIX}{ref.key}", body, headers)


async def delete_binding(client: Client, ref: ClusterRef) -> None:
    """Take a cluster out of the registry; only the gateway does. Raises as `bus.publish_durable` does."""
    await store(client, f"{_PREFIX}{ref.key}", b"", {_OPERATION: "DEL"})

"""A copy of a collection that follows the API server: one list, then a watch that goes on where the last one ended."""

import asyncio
import time
from collections.abc import Callable

import structlog
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Histogram

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import ApiError, Expired, Forbidden, NotFound, Throttled
from clusterra_edge_agent.kubernetes.client.resources import Object, WatchEvent

log = structlog.get_logger(__name__)

LIST_SECONDS = Histogram(
    "clusterra_edge_list_seconds",
    "A full list, from the request for its first page until all of it has been taken",
    ("collection",),
    buckets=LATENCY_BUCKETS_SECONDS,
)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
LONGEST_ABSENCE_PAUSE_SECONDS = 300.0
"""Of a collection that a cluster may do without."""


class Reflector[O: Object]:
    """Objects by name; `changed(old, new)` is called for each difference, also for those that a list shows.

    While the server cannot be followed the copy stays as it was and `following` is false.
    """

    def __init__(
        self,
        api: Api,
        collection: Collection[O],
        changed: Callable[[O | None, O | None], None],
        told: Callable[[], None],
        *,
        optional: bool = False,
    ) -> None:
        """`told` is called after all of a list, and after each line of a watch, has been passed to `changed`.

        `optional`: the cluster may not have this collection, or may not let us see it. Then it is looked for ever less
        often.
        """
        self.objects: dict[str, O] = {}
        self.following = False
        self._api = api
        self._collection = collection
        self._changed = changed
        self._told = told
        self._optional = optional
        self._warned_of = ""
        self._version: str | None = None

    async def run(self) -> None:
        """Follow until cancelled."""
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            longest_seconds = LONGEST_PAUSE_SECONDS
            known = self._version
            try:
                version = known or await self._list()
                async with self._api.watch(self._collection, version) as events:
                    pause_seconds = FIRST_PAUSE_SECONDS
                    self._warned_of = ""
                    self._set_following(True)
                    async for event in events:
                        self._take(event)
                # The server ended the watch in its time; the next one goes on from here.
            except Expired:
                log.info("watch_expired", collection=self._collection.path)
                self._version = None
                if known is not None:
                    # The server answers: the pauses were for its absence. One whose new lists expire gets longer ones.
                    pause_seconds = FIRST_PAUSE_SECONDS
            except Throttled as error:
                pause_seconds = max(error.retry_after_seconds, FIRST_PAUSE_SECONDS)
                log.warning("api_server_throttles", collection=self._collection.path, seconds=pause_seconds)
            except ApiError as error:
                if self._optional and isinstance(error, NotFound | Forbidden):
                    longest_seconds = LONGEST_ABSENCE_PAUSE_SECONDS
                self._warn(error)
                self._set_following(False)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, longest_seconds)

    def _warn(self, error: ApiError) -> None:
        """Once of each kind of trouble, until it is over."""
        kind = type(error).__name__
        if kind != self._warned_of:
            self._warned_of = kind
            log.warning("api_server_not_followed", collection=self._collection.path, reason=str(error).strip())

    def put(self, new: O) -> None:
        """Take what the server has just answered, unless the watch has already shown something newer of it."""
        old = self.objects.get(new.name)
        if old is not None and old.metadata.uid == new.metadata.uid and _is_newer(new, old):
            self._set(new)

    async def _list(self) -> str:
        """What is still the same stays as it is; all the rest changes at once, as if it had been one answer."""
        before = time.monotonic()
        found: dict[str, O] = {}
        version = ""
        async for page in self._api.pages(self._collection):
            for each in page.items:
                known = self.objects.get(each.name)
                found[each.name] = known if known is not None and known == each else each
            version = page.metadata.resource_version
        for name in self.objects.keys() - found.keys():
            self._remove(name)
        for each in found.values():
            self._set(each)
        self._version = version
        LIST_SECONDS.labels(self._collection.kind).observe(time.monotonic() - before)
        return version

    def _set_following(self, following: bool) -> None:
        """Tell of a list with it, too: a watch follows each."""
        self.following = following
        self._told()

    def _take(self, event: WatchEvent[O]) -> None:
        self._version = event.object.metadata.resource_version
        match event.type:
            case "ADDED" | "MODIFIED":
                self._set(event.object)
            case "DELETED":
                self._remove(event.object.name)
            case "BOOKMARK":
                return
        self._told()

    def _set(self, new: O) -> None:
        old = self.objects.get(new.name)
        if old is new:
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            # Deleted and made again between two lists.
            self._remove(new.name)
            old = None
        self.objects[new.name] = new
        self._changed(old, new)

    def _remove(self, name: str) -> None:
        if (old := self.objects.pop(name, None)) is not None:
            self._changed(old, None)


def _is_newer(new: Object, old: Object) -> bool:
    """Resource versions of one collection are comparable numbers since Kubernetes 1.35."""
    return int(new.metadata.resource_version) > int(old.metadata.resource_version)

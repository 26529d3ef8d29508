"""A local copy of a collection that follows the API server: one list, then watches that each continue the last."""

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
    "Duration of a full list, from the request for its first page until all of it is processed",
    ("collection",),
    buckets=LATENCY_BUCKETS_SECONDS,
)

MIN_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 10.0
MAX_ABSENT_PAUSE_SECONDS = 300.0
"""For a collection that may be absent from a cluster."""


class Reflector[O: Object]:
    """Objects by name. `on_change(old, new)` is called for each difference, including those that a list reveals.

    While the server cannot be followed, the copy stays as it was and `following` is false.
    """

    def __init__(
        self,
        api: Api,
        collection: Collection[O],
        on_change: Callable[[O | None, O | None], None],
        on_sync: Callable[[], None],
        *,
        optional: bool = False,
    ) -> None:
        """`on_sync` is called after a whole list, and after each line of a watch, has been passed to `on_change`.

        `optional`: the cluster may not have this collection, or may not permit reading it. Then retries become rare.
        """
        self.objects: dict[str, O] = {}
        self.following = False
        self._api = api
        self._collection = collection
        self._on_change = on_change
        self._on_sync = on_sync
        self._optional = optional
        self._last_warning = ""
        self._version: str | None = None

    async def run(self) -> None:
        """Follows the API server, until cancelled."""
        pause_seconds = MIN_PAUSE_SECONDS
        while True:
            max_pause_seconds = MAX_PAUSE_SECONDS
            known = self._version
            try:
                version = known or await self._list()
                async with self._api.watch(self._collection, version) as events:
                    pause_seconds = MIN_PAUSE_SECONDS
                    self._last_warning = ""
                    self._set_following(True)
                    async for event in events:
                        self._apply(event)
                # The server ended the watch after its time limit. The next watch continues from here.
            except Expired:
                log.info("watch_expired", collection=self._collection.path)
                self._version = None
                if known is not None:
                    # The server answers again, so its pauses start over. Lists that expire immediately still get longer
                    # pauses.
                    pause_seconds = MIN_PAUSE_SECONDS
            except Throttled as error:
                pause_seconds = max(error.retry_after_seconds, MIN_PAUSE_SECONDS)
                log.warning("api_server_throttles", collection=self._collection.path, seconds=pause_seconds)
            except ApiError as error:
                if self._optional and isinstance(error, NotFound | Forbidden):
                    max_pause_seconds = MAX_ABSENT_PAUSE_SECONDS
                self._warn(error)
                self._set_following(False)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, max_pause_seconds)

    def _warn(self, error: ApiError) -> None:
        """Logs once per kind of error, until it is over."""
        kind = type(error).__name__
        if kind != self._last_warning:
            self._last_warning = kind
            log.warning("api_server_not_followed", collection=self._collection.path, reason=str(error).strip())

    def put(self, new: O) -> None:
        """Takes an object from an answer, unless the watch has already delivered a newer version.

        The answer to the deletion of an object that is already gone has no version: the watch delivers the deletion.
        """
        if not new.metadata.resource_version:
            return
        old = self.objects.get(new.name)
        if old is not None and old.metadata.uid == new.metadata.uid and _is_newer(new, old):
            self._set(new)

    async def _list(self) -> str:
        """Lists the collection. Unchanged objects keep their identity; all changes apply after the last page."""
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
        """Called when a watch begins or fails. A list is complete for `on_sync` once the watch after it begins."""
        self.following = following
        self._on_sync()

    def _apply(self, event: WatchEvent[O]) -> None:
        self._version = event.object.metadata.resource_version
        match event.type:
            case "ADDED" | "MODIFIED":
                self._set(event.object)
            case "DELETED":
                self._remove(event.object.name)
            case "BOOKMARK":
                return
        self._on_sync()

    def _set(self, new: O) -> None:
        old = self.objects.get(new.name)
        if old is new:
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            # It was deleted and created again between two lists.
            self._remove(new.name)
            old = None
        self.objects[new.name] = new
        self._on_change(old, new)

    def _remove(self, name: str) -> None:
        if (old := self.objects.pop(name, None)) is not None:
            self._on_change(old, None)


def _is_newer(new: Object, old: Object) -> bool:
    """Compares resource versions, which are numbers in practice and by contract since Kubernetes 1.35."""
    return int(new.metadata.resource_version) > int(old.metadata.resource_version)

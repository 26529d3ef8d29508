"""A reflector of a namespace's pods, and what it reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Pod
from clusterra_lab.machine.process import until


@dataclass
class Changes:
    """What a reflector reported: the uids of the pods."""

    came: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    went: list[str] = field(default_factory=list)

    def report(self, old: Pod | None, new: Pod | None) -> None:
        if old is None:
            assert new is not None
            self.came.append(new.metadata.uid)
        elif new is None:
            self.went.append(old.metadata.uid)
        else:
            self.changed.append(new.metadata.uid)


@asynccontextmanager
async def followed(api: Api) -> AsyncIterator[tuple[Reflector[Pod], Changes]]:
    """Yields a reflector of the namespace's pods, and the changes that it reported."""
    changes = Changes()
    reflector = Reflector(api, Collection.pods(api.namespace, SHAPE_LABEL), changes.report, lambda: None)
    running = asyncio.create_task(reflector.run())
    try:
        await until(lambda: reflector.following, seconds=240, what="the first list")
        yield reflector, changes
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

"""The level of a table's records: the number of the last migration that was applied to them.

A table keeps its level in an item of its own. `clusterra-admin migrate apply` raises it. A service states the lowest
level whose records it reads, and the last migration that it knows; it waits, not ready, while the level does not fit,
and stops if the level ceases to fit while it runs.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Annotated

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterra_runtime.backoff import Backoff
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import Store, StoreError, Table

log = structlog.get_logger(__name__)

LEVEL = Key("migrations", "level")
"""The key of a table's level."""
POLL_SECONDS = 2.0
LONGEST_POLL_SECONDS = 10.0
WATCH_SECONDS = 30.0


class Level(BaseModel):
    """The level of a table's records. A table without one is at level 0."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    level: Annotated[int, Field(ge=0)] = 0
    readable_from: Annotated[int, Field(ge=0)] = 0
    """A release must know this migration to read the records."""


@dataclass(frozen=True, slots=True)
class RecordForms:
    """The records of one table that a release can read."""

    table: Table
    needs: int
    """The lowest level whose records it reads."""
    knows: int
    """The number of the last migration that it knows."""

    def problem(self, level: Level) -> str:
        """Why the release cannot work on records at this level, and what to do; empty if it can."""
        name = self.table.name
        if level.level < self.needs:
            return (
                f"the records of {name} are at level {level.level}, and this release reads them from level"
                f" {self.needs} on: run `clusterra-admin migrate apply`"
            )
        if level.readable_from > self.knows:
            return (
                f"the records of {name} are at level {level.level}, which only releases that know migration"
                f" {level.readable_from} can read, and this one knows {self.knows}: run a newer release"
            )
        return ""


class RecordsDoNotFit(Exception):
    """The records of a running service have been migrated to a form that it cannot read."""


class RecordLevels:
    """Compares the levels of a service's tables with what it can read. `problem` is a condition of its readiness."""

    def __init__(self, store: Store, *forms: RecordForms) -> None:
        self._store = store
        self._forms = forms
        self.problem = ""

    async def wait(self) -> None:
        """Return when all records can be read."""
        backoff = Backoff(POLL_SECONDS, LONGEST_POLL_SECONDS)
        while True:
            if await self._look() and not self.problem:
                return
            await backoff.pause()

    async def watch(self) -> None:
        """Look again from time to time: a newer release may migrate the records meanwhile.

        Raises RecordsDoNotFit as soon as they do not fit any more, so that the service stops. Otherwise it would write
        records in a form that the newer release has just migrated away from. Started again, it waits, not ready.
        """
        while True:
            # Replicas that were started together must not read at the same time.
            await asyncio.sleep(WATCH_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
            await self._look()
            if self.problem:
                raise RecordsDoNotFit(self.problem)

    async def _look(self) -> bool:
        """Whether the levels could be read; otherwise nothing is known of them, and the last problem stays."""
        found = []
        for forms in self._forms:
            try:
                found.append(forms.problem(await read_level(self._store, forms.table)))
            except (StoreError, ValidationError) as error:
                log.warning("record_level_not_read", table=forms.table.name, reason=str(error))
                return False
        problem = "; ".join(filter(None, found))
        if problem and problem != self.problem:
            log.error("records_do_not_fit", problem=problem)
        self.problem = problem
        return True


async def read_level(store: Store, table: Table) -> Level:
    """The level of a table's records. Raises StoreError, and ValidationError for an item that is not a level."""
    item = await store.get(table, LEVEL)
    return Level() if item is None else Level.model_validate(dict(item.attributes))

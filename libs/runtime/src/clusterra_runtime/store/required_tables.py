"""Waits for the tables that a service needs. Services do not create tables: `clusterra-admin tables apply` does."""

import time

import structlog

from clusterra_runtime.backoff import Backoff
from clusterra_runtime.store.store import Store, StoreError, Table

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
LONGEST_POLL_SECONDS = 5.0
REPEAT_SECONDS = 30.0
"""How often the log repeats that a table is missing."""
COMMAND = "clusterra-admin tables apply"


class RequiredTables:
    """The tables of one service, and what is known of them; `exist` and `reachable` are conditions of its readiness."""

    MISSING = f"tables exist (else run `{COMMAND}`)"
    UNREACHABLE = "DynamoDB answers"

    def __init__(self, store: Store, *tables: Table) -> None:
        self._store = store
        self._tables = tables
        self._logged: dict[str, float] = {}
        self.exist = True
        """False once a table was found missing, until all are there."""
        self.reachable = False
        """Whether the store answered."""

    async def wait(self) -> None:
        """Return when all tables can be used. A store that does not answer is asked again, as are missing tables."""
        backoff = Backoff(POLL_SECONDS, LONGEST_POLL_SECONDS)
        while True:
            try:
                missing = await self._store.missing_tables(*self._tables)
            except StoreError as error:
                self.reachable = False
                self._log("tables_not_checked", str(error))
            else:
                self.reachable, self.exist = True, not missing
                if self.exist:
                    return
                self._log("tables_missing", ", ".join(missing))
            await backoff.pause()

    def _log(self, event: str, reason: str) -> None:
        now = time.monotonic()
        if now - self._logged.get(reason, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._logged = {reason: now}
            log.warning(event, reason=reason, hint=f"run `{COMMAND}`" if event == "tables_missing" else "")

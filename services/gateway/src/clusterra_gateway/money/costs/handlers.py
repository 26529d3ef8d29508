"""The route of a cluster's costs. Tables are written page by page as the client reads them."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import MAX_COST_DAYS, CostPage, ReadCosts

from clusterra_gateway.bus.requests import LedgerRequests
from clusterra_gateway.http.answers.responses import Money, json_response
from clusterra_gateway.http.answers.streams import TABLE_WEIGHT, csv_lines, download, send
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.money.costs.rows import (
    COLUMNS,
    FOCUS_BY,
    FOCUS_COLUMNS,
    CostReport,
    CostsQuery,
    Format,
    entry_of,
    focus_cells,
    own_cells,
)

PAGE_ROWS = 1000
"""How many rows of a table are read from the ledger at once."""

api = cluster_routes(reads=Needs("jobs:read"))


class Costs:
    """The handler of the costs."""

    def __init__(self, ledger: LedgerRequests) -> None:
        self._ledger = ledger

    @api.get("costs_read", f"{CLUSTER}/costs", query=CostsQuery, result=CostReport, other_results=("text/csv",))
    async def costs(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns what the cluster's jobs and workers cost, by job, user, account, template, worker, shape or day.

        A job pays its dominant share of the price of its workers. What no job pays is overhead: `boot`, `idle` and
        `unattributed`. Shares and overhead are the bill of the workers, exactly. Members see their own jobs. Whoever
        sees everybody's jobs sees all rows and the overhead. `format=csv` is a table, `format=focus` a table in the
        columns of FOCUS 1.1, by day, job and worker; both have all rows. A body that breaks off is not whole.
        """
        wanted = query(request, CostsQuery)
        read = _request(wanted, caller)
        match _format(request, wanted):
            case "json":
                return json_response(_report(ref, read, await self._ledger.costs(ref, read)))
            case form:
                by = FOCUS_BY if form == "focus" else read.by
                return await self._table(
                    request, ref, read.model_copy(update={"limit": PAGE_ROWS, "cursor": None, "by": by}), form
                )

    async def _table(self, request: web.Request, ref: ClusterRef, read: ReadCosts, form: Format) -> web.StreamResponse:
        name = f"costs-{ref.cluster}-{read.first}-{read.last}.{'focus.' if form == 'focus' else ''}csv"
        # No name for the first page: it would be held until the client has read the last one.
        lines = self._lines(ref, read, await self._ledger.costs(ref, read), form)
        return await send(request, download(name, "text/csv"), lines, weight=TABLE_WEIGHT)

    async def _lines(self, ref: ClusterRef, read: ReadCosts, page: CostPage, form: Format) -> AsyncIterator[bytes]:
        columns, cells = (FOCUS_COLUMNS, partial(focus_cells, ref)) if form == "focus" else (COLUMNS, own_cells)
        yield csv_lines([columns])
        while True:
            text, cursor = csv_lines(map(cells, page.rows)), page.cursor
            del page  # a slow client holds the text alone
            yield text
            if cursor is None:
                return
            page = await self._ledger.costs(ref, read.model_copy(update={"cursor": cursor}))


def _request(wanted: CostsQuery, caller: Caller) -> ReadCosts:
    today = now().date()
    first = wanted.first or today.replace(day=1)
    end = wanted.end or max(today, first) + timedelta(days=1)
    if not 0 < (end - first).days <= MAX_COST_DAYS:
        raise InvalidRequest(
            f"to must be after from, by {MAX_COST_DAYS} days at most",
            hint="from is the first day, and to the day after the last one, such as from=2026-11-01&to=2026-12-01",
        )
    by = tuple(dict.fromkeys(wanted.by or ("job",)))
    return ReadCosts(
        viewer=caller.viewer,
        first=first,
        last=end - timedelta(days=1),
        by=by,
        limit=wanted.limit,
        cursor=wanted.cursor,
    )


def _format(request: web.Request, wanted: CostsQuery) -> Format:
    if wanted.format is not None:
        return wanted.format
    return "csv" if "text/csv" in request.headers.get("Accept", "") else "json"


def _report(ref: ClusterRef, read: ReadCosts, page: CostPage) -> CostReport:
    return CostReport.showing(
        page,
        cluster_id=ref.cluster,
        first=read.first,
        last=read.last,
        rows=tuple(map(entry_of, page.rows)),
        shares=Money.of(page.shares_micro_usd),
        overhead=Money.of(page.overhead_micro_usd),
        bill=Money.of(page.shares_micro_usd + page.overhead_micro_usd),
    )

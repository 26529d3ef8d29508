"""The export of a cluster's audit, which is written page by page as the client reads it."""

from collections.abc import AsyncIterator

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.events.audit_entries import KINDS, WRITERS, Format, entry_of
from clusterra_gateway.http.answers.bounded_write import break_off, write
from clusterra_gateway.http.answers.responses import NO_STORE
from clusterra_gateway.http.requests.parameters import Query, Time, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

log = structlog.get_logger()

PAGE_EVENTS = 500
"""How many events are read from the archive at once."""


api = cluster_routes(reads=Needs("events:read", "admin"))


class AuditQuery(Query):
    """What to export. `after` is inclusive, `before` exclusive."""

    format: Format = "ndjson"
    after: Time | None = None
    before: Time | None = None


class Audit:
    """The handler of the export."""

    def __init__(self, access: Access, archive: HistoryRequests) -> None:
        self._access = access
        self._archive = archive

    @api.get("audit_export", f"{CLUSTER}/audit", stream=True, query=AuditQuery, result="*/*")
    async def export(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Exports who did what in the cluster, oldest first: submits, actions on jobs, members, tokens.

        Entries come from the archive of events, which nothing changes and which keeps them for its retention time.
        `ndjson` has one JSON object for each line, `csv` is a table. A body that breaks off is not whole.
        """
        wanted = query(request, AuditQuery)
        read = ReadHistory(kinds=KINDS, after=wanted.after, before=wanted.before, limit=PAGE_EVENTS)
        first = await self._archive.history(ref, read)
        media_type, header, written = WRITERS[wanted.format]
        name = f"audit-{ref.cluster}.{wanted.format}"
        response = web.StreamResponse(headers={**NO_STORE, "Content-Disposition": f'attachment; filename="{name}"'})
        response.content_type = media_type
        response.charset = "utf-8"
        permission = self._access.stream_permission(request, caller)
        try:
            await response.prepare(request)
            await write(request, response, header())
            async for page in self._pages(ref, read, first):
                if not await permission.holds():
                    log.warning("audit_broken_off", path=request.path, reason="the caller may not read it any more")
                    break_off(request)
                    break
                await write(request, response, written(filter(None, map(entry_of, page.events))))
            else:
                await response.write_eof()
        except ConnectionResetError:
            pass  # the client has left, or was left
        except RpcFailed as failed:
            log.warning("audit_broken_off", path=request.path, reason=failed.error.detail)
            break_off(request)
        return response

    async def _pages(self, ref: ClusterRef, read: ReadHistory, page: HistoryPage) -> AsyncIterator[HistoryPage]:
        yield page
        while page.cursor is not None:
            page = await self._archive.history(ref, read.model_copy(update={"cursor": page.cursor}))
            yield page

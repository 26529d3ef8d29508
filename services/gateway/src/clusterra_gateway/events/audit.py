"""The export of the audit of a cluster or a workspace: entries made from archived events, as the client reads them."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.events import AUDITED_KINDS, AdminFact, Event, FileFact, JobActionFact, JobFact
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_runtime.nats.registry import Registry
from pydantic import Field

from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.events.past import Pages, of_cluster, of_tenant
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.answers.sse import Permission
from clusterra_gateway.http.answers.streams import TABLE_WEIGHT, CutOff, csv_lines, download, send
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import CommaSeparated, Query, Time, query
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, caller_routes, cluster_routes

Format = Literal["ndjson", "csv"]


class Entry(ResponseBody):
    """Somebody did something, and it took effect."""

    time: Moment
    actor: str
    """The user name of whoever acted, or the name of a service."""
    action: str
    """The kind of the event, such as `action.cancel`."""
    subject: str
    """What was acted on: a job id, a user name, a token id, a cluster, or `files`."""
    owner: str
    """The user name of the job's owner; empty where the subject is no job."""
    detail: str
    """The job's name, the array's tasks and what was changed, a new limit, a member's role before and after, or the
    paths of files, as far as the event has them."""
    event_id: str
    """The event that this entry is made from. The same event never makes two entries."""


def entry_of(event: Event) -> Entry | None:
    """Return the entry of an event; None if nobody caused it."""
    match event.data:
        case JobFact(kind="job.submitted") as fact:
            actor, owner, detail = fact.user, fact.user, [fact.name]
        case JobActionFact() as fact:
            actor, owner, detail = fact.actor, fact.user, [fact.name, fact.tasks, fact.detail]
        case AdminFact() as fact:
            told = f"from {fact.before} to {fact.after}" if fact.before or fact.after else ""
            actor, owner, detail = fact.actor, "", [fact.detail, told]
        case FileFact() as fact:
            actor, owner = fact.actor, ""
            detail = [", ".join(fact.paths), f"to {fact.destination}" if fact.destination else ""]
        case _:
            return None
    return Entry(
        time=event.time,
        actor=actor,
        action=event.kind,
        subject=event.subject,
        owner=owner,
        detail="; ".join(part for part in detail if part),
        event_id=event.id,
    )


def kinds_of(patterns: Iterable[str]) -> frozenset[str]:
    """Expands names and patterns such as `quota.*` to audited kinds. Raises InvalidRequest if one matches none."""
    found = set[str]()
    for pattern in patterns:
        family = pattern.removesuffix("*") if pattern.endswith(".*") else None
        matching = {kind for kind in AUDITED_KINDS if kind == pattern or (family and kind.startswith(family))}
        if not matching:
            raise InvalidRequest(
                f"the audit has no events of the kind {pattern!r}", hint=f"kinds: {', '.join(sorted(AUDITED_KINDS))}"
            )
        found |= matching
    return frozenset(found)


def matches(entry: Entry, search: str) -> bool:
    """Whether the actor, action, subject, owner or details contain a text, in any case of its letters."""
    wanted = search.strip().lower()
    values = (entry.actor, entry.action, entry.subject, entry.owner, entry.detail)
    return any(wanted in value.lower() for value in values)


def ndjson(entries: Iterable[Entry]) -> bytes:
    """One JSON object for each line."""
    return b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)


def csv_rows(entries: Iterable[Entry]) -> bytes:
    """One line of a table for each entry."""
    return csv_lines(entry.model_dump(mode="json").values() for entry in entries)


PAGE_EVENTS = 500
"""How many events are read from the archive at once."""
MAX_SEARCH_CHARACTERS = 200
"""The longest text of `search`."""

api = cluster_routes(reads=Needs("events:read", "admin"))
tenant_api = caller_routes(reads=Needs("events:read", "admin"))


class AuditQuery(Query):
    """What to export. `after` is inclusive, `before` exclusive.

    `kind` is one kind of the audit such as `quota.changed`, or all kinds of an entity such as `quota.*`. `search` is a
    text that the actor, the action, the subject, the owner or the details of an entry contain.
    """

    format: Format = "ndjson"
    kind: Annotated[tuple[str, ...] | None, CommaSeparated] = None
    search: Annotated[str, Field(max_length=MAX_SEARCH_CHARACTERS)] = ""
    after: Time | None = None
    before: Time | None = None


class TenantAuditQuery(AuditQuery):
    """What to export, and of which clusters: without `cluster`, of all."""

    cluster: Annotated[tuple[str, ...] | None, CommaSeparated] = None


class Audit:
    """The handlers of the exports."""

    def __init__(self, access: Access, archive: HistoryRequests, registry: Registry) -> None:
        self._access = access
        self._archive = archive
        self._registry = registry

    @api.get("audit_export", f"{CLUSTER}/audit", stream=True, query=AuditQuery, result="*/*")
    async def export(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Exports who did what in the cluster, oldest first: submits, actions on jobs, members, tokens.

        Entries come from the archive of events, which nothing changes and which keeps them for its retention time.
        `ndjson` has one JSON object for each line, `csv` is a table. A body that breaks off is not whole.
        """
        wanted = query(request, AuditQuery)
        return await self._exported(request, caller, wanted, of_cluster(self._archive, ref), ref.cluster)

    @tenant_api.get("tenant_audit_export", "/v1/audit", stream=True, query=TenantAuditQuery, result="*/*")
    async def export_all(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Exports who did what in all clusters of the workspace, oldest first, as the export of one cluster does.

        What was done to the workspace itself, such as to members and quotas, is in it once.
        """
        wanted = query(request, TenantAuditQuery)
        pages = of_tenant(self._archive, self._registry, caller.tenant, wanted.cluster)
        return await self._exported(request, caller, wanted, pages, caller.tenant.tenant)

    async def _exported(
        self, request: web.Request, caller: Caller, wanted: AuditQuery, pages: Pages, name: str
    ) -> web.StreamResponse:
        kinds = AUDITED_KINDS if wanted.kind is None else kinds_of(wanted.kind)
        read = ReadHistory(kinds=tuple(sorted(kinds)), after=wanted.after, before=wanted.before, limit=PAGE_EVENTS)
        media_type = "text/csv" if wanted.format == "csv" else "application/x-ndjson"
        response = download(f"audit-{name}.{wanted.format}", media_type)
        permission = self._access.stream_permission(request, caller)
        # No name for the first page: it would be held until the client has read the last one.
        lines = _lines(pages, read, await pages(read), wanted, permission)
        return await send(request, response, lines, weight=TABLE_WEIGHT)


async def _lines(
    pages: Pages, read: ReadHistory, page: HistoryPage, wanted: AuditQuery, permission: Permission
) -> AsyncIterator[bytes]:
    if wanted.format == "csv":
        yield csv_lines([tuple(Entry.model_fields)])
    written = csv_rows if wanted.format == "csv" else ndjson
    while True:
        if not await permission.holds():
            raise CutOff("the caller may not read it any more")
        entries = (entry for entry in map(entry_of, page.events) if entry is not None)
        text, cursor = written(entry for entry in entries if matches(entry, wanted.search)), page.cursor
        del page  # a slow client holds the text alone
        yield text
        if cursor is None:
            return
        page = await pages(read.model_copy(update={"cursor": cursor}))

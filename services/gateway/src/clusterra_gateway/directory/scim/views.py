"""The answers with users and groups: what a client of SCIM sees of a record, and which ones a filter is about.

Nothing is searched: a filter must name the resource by an attribute with an index.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from aiohttp import web
from scim2_models import InvalidFilterException, ListResponse, Meta, Resource, ResponseParameters, ScimFilter
from scim2_models.path import CompareOperator, Comparison, FilterNode, LogicalExpr, LogicalOperator

from clusterra_gateway.accounts.keyspace import ScimKind
from clusterra_gateway.directory.scim.protocol import dumped, scim_response
from clusterra_gateway.directory.scim.provisioned import Found, ProvisionedDirectory
from clusterra_gateway.directory.scim.requests import MAX_COUNT, ListQuery
from clusterra_gateway.directory.scim.resources import Group, Kind, StoredGroup, StoredUser, Unreadable, User

log = structlog.get_logger()

type FoundBy = Literal["id", "name", "external"]

_NAMES: Mapping[ScimKind, Mapping[str, FoundBy]] = {
    "user": {"id": "id", "username": "name", "externalid": "external"},
    "group": {"id": "id", "displayname": "name", "externalid": "external"},
}


@dataclass(frozen=True, slots=True)
class View[R: (User, Group), S: (StoredUser, StoredGroup)]:
    """How a tenant's resources of one kind are found and shown. `folder` is the address of their list."""

    kind: Kind[R, S]
    directory: ProvisionedDirectory
    tenant: str
    folder: str

    def shown(self, found: Found[S]) -> R:
        """The resource with its id and its metadata."""
        resource = self.kind.resource_of(found.record)
        resource.id = found.id
        resource.meta = Meta(
            resource_type=self.kind.name.title(),
            created=found.record.created_at,
            last_modified=found.record.changed_at,
            location=self.location(found.id),
            version=f'W/"{found.version}"',
        )
        return resource

    def location(self, resource_id: str) -> str:
        """The address of a resource."""
        return f"{self.folder}/{resource_id}"

    async def answer(
        self, found: Found[S], parameters: ResponseParameters[R] | None = None, *, status: int = 200
    ) -> web.Response:
        """The answer with one resource."""
        content = await asyncio.to_thread(lambda: dumped(self.shown(found), parameters))
        headers = {"Location": self.location(found.id)} if status == web.HTTPCreated.status_code else {}
        return scim_response(content, status=status, version=found.version, headers=headers)


async def listed[R: (User, Group), S: (StoredUser, StoredGroup)](view: View[R, S], wanted: ListQuery) -> web.Response:
    """The answer with a list. Raises InvalidFilterException, pydantic's ValidationError, StoreError."""
    parameters = wanted.parameters(view.kind.model)
    start, count = max(wanted.start_index, 1), min(wanted.count, MAX_COUNT)
    if wanted.filter is None:
        ids = await view.directory.ids(view.tenant, view.kind.name)
        total, part = len(ids), ids[start - 1 : start - 1 + count]
        found = _shown(view, await view.directory.some(view.kind, view.tenant, part))
    else:
        matching = await _matching(view, wanted.filter)
        total, found = len(matching), matching[start - 1 : start - 1 + count]
    content = ListResponse.__class_getitem__(view.kind.model)(
        total_results=total, start_index=start, items_per_page=len(found), resources=[]
    ).model_dump()
    content["Resources"] = await asyncio.to_thread(lambda: [dumped(each, parameters) for each in found])
    return scim_response(content)


async def _matching[R: (User, Group), S: (StoredUser, StoredGroup)](view: View[R, S], text: str) -> list[R]:
    pin = await asyncio.to_thread(pinned, text, view.kind.name, view.kind.model)
    resource_id: str | None = pin.value
    if pin.by != "id":
        resource_id = await view.directory.by_index(view.tenant, view.kind.name, pin.by, pin.value)
    if not resource_id or len(resource_id) > 64:
        return []
    found = _shown(view, await view.directory.some(view.kind, view.tenant, [resource_id]))
    return [each for each in found if pin.fits(each)]


def _shown[R: (User, Group), S: (StoredUser, StoredGroup)](view: View[R, S], records: Sequence[Found[S]]) -> list[R]:
    """The resources of records, without those that cannot be read."""
    shown: list[R] = []
    for each in records:
        try:
            shown.append(view.shown(each))
        except Unreadable:
            log.error("provisioned_unreadable", key=each.id)  # noqa: TRY400 - not the record
    return shown


@dataclass(frozen=True, slots=True)
class Pinned[R: Resource[Any]]:
    """A filter that at most one resource fits, because it names an indexed value. `whole` has its other terms, too."""

    by: FoundBy
    value: str
    whole: ScimFilter[R]

    def fits(self, resource: R) -> bool:
        """Whether the resource that was found fits the whole filter."""
        return self.whole.match(resource)


def pinned[R: Resource[Any]](text: str, kind: ScimKind, model: type[R]) -> Pinned[R]:
    """Reads a filter. Raises InvalidFilterException, also for one that several resources might fit."""
    bound: type[ScimFilter[R]] = ScimFilter.__class_getitem__(model)
    whole = bound(text)
    for each in _terms(whole.ast):
        by = _NAMES[kind].get(each.attr_path.attr.lower())
        plain = each.attr_path.sub_attr is None and each.attr_path.uri in (None, str(model.__schema__))
        if by is not None and plain and each.op == CompareOperator.eq and isinstance(each.value, str):
            return Pinned(by, each.value, whole)
    name = "userName" if kind == "user" else "displayName"
    raise InvalidFilterException(
        detail=f"compare {name}, externalId or id by `eq`, alone or with others by `and`", filter=text
    )


def _terms(node: FilterNode) -> Iterator[Comparison]:
    """The comparisons that must all hold."""
    if isinstance(node, Comparison):
        yield node
    elif isinstance(node, LogicalExpr) and node.op == LogicalOperator.and_:
        for each in node.terms:
            yield from _terms(each)

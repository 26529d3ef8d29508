"""The answers with users and groups: what a client of SCIM sees of a record."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from aiohttp import web
from scim2_models import ListResponse, Meta, ResponseParameters

from clusterra_gateway.accounts.keyspace import ScimKind
from clusterra_gateway.directory.provisioned.directory import Found, ProvisionedDirectory
from clusterra_gateway.directory.provisioned.records import StoredGroup, StoredUser, Unreadable
from clusterra_gateway.directory.provisioned.resources import Group, User
from clusterra_gateway.directory.scim.filters import pinned
from clusterra_gateway.directory.scim.protocol import dumped, scim_response
from clusterra_gateway.directory.scim.requests import MAX_COUNT, ListQuery

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class View[R: (User, Group), S: (StoredUser, StoredGroup)]:
    """How the resources of one kind are shown. `folder` is the address of their list."""

    kind: ScimKind
    model: type[R]
    folder: str
    resource_of: Callable[[S], R]

    def shown(self, found: Found[S]) -> R:
        """The resource with its id and its metadata."""
        resource = self.resource_of(found.record)
        resource.id = found.id
        resource.meta = Meta(
            resource_type=self.kind.title(),
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


@dataclass(frozen=True, slots=True)
class Reader[S: (StoredUser, StoredGroup)]:
    """How the records of one kind are read."""

    directory: ProvisionedDirectory
    tenant: str
    read: Callable[[str, Sequence[str]], Awaitable[list[Found[S]]]]


async def listed[R: (User, Group), S: (StoredUser, StoredGroup)](
    view: View[R, S], reader: Reader[S], wanted: ListQuery
) -> web.Response:
    """The answer with a list. Raises InvalidFilterException, pydantic's ValidationError, StoreError."""
    parameters = wanted.parameters(view.model)
    start, count = max(wanted.start_index, 1), min(wanted.count, MAX_COUNT)
    if wanted.filter is None:
        ids = await reader.directory.ids(reader.tenant, view.kind)
        total, part = len(ids), ids[start - 1 : start - 1 + count]
        found = _shown(view, await reader.read(reader.tenant, part))
    else:
        matching = await _matching(view, reader, wanted.filter)
        total, found = len(matching), matching[start - 1 : start - 1 + count]
    content = ListResponse.__class_getitem__(view.model)(
        total_results=total, start_index=start, items_per_page=len(found), resources=[]
    ).model_dump()
    content["Resources"] = await asyncio.to_thread(lambda: [dumped(each, parameters) for each in found])
    return scim_response(content)


async def _matching[R: (User, Group), S: (StoredUser, StoredGroup)](
    view: View[R, S], reader: Reader[S], text: str
) -> list[R]:
    pin = await asyncio.to_thread(pinned, text, view.kind, view.model)
    resource_id: str | None = pin.value
    if pin.by != "id":
        resource_id = await reader.directory.by_index(reader.tenant, view.kind, pin.by, pin.value)
    if not resource_id or len(resource_id) > 64:
        return []
    found = _shown(view, await reader.read(reader.tenant, [resource_id]))
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

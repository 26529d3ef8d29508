"""The handlers of a workspace's own templates: versions, reviews, publishing, roll back."""

from collections.abc import Callable

import structlog
from aiohttp import web
from clusterra_contracts.events import AdminKind
from clusterra_contracts.identity import now
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_templates.definitions import Definition
from clusterra_templates.loading import load
from clusterra_templates.problems import TemplateInvalid

from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, InvalidRequest, NotFound
from clusterra_gateway.http.requests.json_body import BodyBounds
from clusterra_gateway.http.requests.parameters import Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.templates.drafts import check_draft
from clusterra_gateway.templates.library import MAX_TEMPLATES, Library
from clusterra_gateway.templates.models import TEMPLATE, TEMPLATES, NewTemplate, Review, VersionDetail, VersionList
from clusterra_gateway.templates.reading import TEMPLATE_ID
from clusterra_gateway.templates.records import StoredVersion, TemplateRecord, TemplateRecords, VersionMark
from clusterra_gateway.templates.rendering import Asker, in_thread

log = structlog.get_logger()

VERSION = Parameter("number", "path", "^[1-9][0-9]{0,5}$")
BOUNDS = BodyBounds(512 * 1024, 100)
"""A definition of 64 KiB, whatever JSON makes of its characters."""

VERSIONS = f"{TEMPLATE}/versions"
ONE_VERSION = f"{VERSIONS}/{{number}}"
api = caller_routes(TEMPLATE_ID, VERSION, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))
decisions = caller_routes(TEMPLATE_ID, VERSION, changes=Needs("jobs:write", "admin"))


class Authoring:
    """The handlers for authors and reviewers."""

    def __init__(self, records: TemplateRecords, library: Library, once: AnswerOnce) -> None:
        self._records = records
        self._library = library
        self._once = once

    @api.post(
        "templates_create",
        TEMPLATES,
        status=201,
        names=(Named(TEMPLATE, "/id"),),
        parameters=(IDEMPOTENCY_KEY,),
        body=NewTemplate,
        result=VersionList,
    )
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Adds a template to the workspace, as the draft of its first version.

        It can be submitted once an admin has approved and published a version. Its id is in the definition.
        """
        wanted = await body(request, NewTemplate, bounds=BOUNDS)
        definition = await self._checked(caller, wanted.definition)

        async def create() -> VersionList:
            known = await self._records.read(caller.member.tenant, definition.id)
            if known is not None and not known[0].deleted:
                raise Conflict(
                    f"there is a template {definition.id}",
                    hint=f"POST /v1/templates/{definition.id}/versions adds a version",
                )
            if len(await self._records.all(caller.member.tenant)) >= MAX_TEMPLATES:
                raise Conflict(f"there are {MAX_TEMPLATES} templates, the most allowed", hint="delete an unused one")
            number, at = (known[0].newest + 1, known[1]) if known is not None else (1, None)
            record = TemplateRecord(
                template_id=definition.id,
                owner=caller.member.id,
                versions=(_draft(caller, number),),
                newest=number,
            )
            new = _stored(wanted, definition)
            await self._records.write(caller.member, record, at=at, kind="template.created", new=new)
            return VersionList.of(record)

        async def act() -> VersionList:
            return await write_optimistically(create, contended=_changed_by_others())

        return await self._once.answer(request, caller.owner_key, wanted, act)

    @api.post(
        "templates_add_version",
        VERSIONS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewTemplate,
        result=VersionList,
        names=(Named(ONE_VERSION, "/versions/0/version"),),
    )
    async def add_version(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Adds the draft of another version. Its author, and admins, may. The published version stays in use."""
        template_id = path_id(request, TEMPLATE_ID)
        wanted = await body(request, NewTemplate, bounds=BOUNDS)
        definition = await self._checked(caller, wanted.definition)
        if definition.id != template_id:
            raise InvalidRequest(
                f"the definition's id is {definition.id}, and the template's {template_id}", hint="the id stays"
            )

        def add(record: TemplateRecord) -> TemplateRecord:
            self._require_author(record, caller)
            number = record.newest + 1
            return record.model_copy(update={"newest": number, "versions": (*record.versions, _draft(caller, number))})

        async def act() -> VersionList:
            return VersionList.of(
                await self._changed(caller, template_id, add, kind="template.changed", new=_stored(wanted, definition))
            )

        return await self._once.answer(request, caller.owner_key, wanted, act)

    @api.get("templates_versions", VERSIONS, result=VersionList, names=(Named(ONE_VERSION, "/versions/0/version"),))
    async def versions(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the versions of a template of the workspace: who wrote them, who reviewed them, which one is used.

        A template of the installation has none.
        """
        template_id = path_id(request, TEMPLATE_ID)
        known = await self._records.read(caller.member.tenant, template_id)
        if known is not None and not known[0].deleted:
            return json_response(VersionList.of(known[0]))
        found = await self._library.one(caller.member.tenant, template_id)
        return json_response(VersionList(id=found.definition.id, versions=()))

    @api.get("templates_version", ONE_VERSION, result=VersionDetail)
    async def version(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns the definition of a version as it was written."""
        template_id, number = path_id(request, TEMPLATE_ID), int(path_id(request, VERSION))
        await self._record(caller, template_id)
        stored = await self._records.version(caller.member.tenant, template_id, number)
        if stored is None:
            raise _no_version()
        return json_response(VersionDetail(id=template_id, version=number, definition=stored.definition))

    @decisions.post("templates_review", f"{ONE_VERSION}/review", body=Review, result=VersionList)
    async def review(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Approves or rejects a version, with a note for its author. The published version cannot be rejected."""
        template_id, number = path_id(request, TEMPLATE_ID), int(path_id(request, VERSION))
        wanted = await body(request, Review)

        def review(record: TemplateRecord) -> TemplateRecord:
            mark = _mark(record, number)
            if record.published == number and not wanted.approve:
                raise Conflict("this version is in use", hint="publish another one first")
            state = "approved" if wanted.approve else "rejected"
            changes = {"state": state, "reviewer": caller.member.user, "note": wanted.note}
            return record.with_version(mark.model_copy(update=changes))

        return json_response(VersionList.of(await self._changed(caller, template_id, review, kind="template.reviewed")))

    @decisions.post("templates_publish", f"{ONE_VERSION}/publish", result=VersionList)
    async def publish(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Makes an approved version the one that is used. With an earlier version, this rolls back."""
        template_id, number = path_id(request, TEMPLATE_ID), int(path_id(request, VERSION))

        def publish(record: TemplateRecord) -> TemplateRecord:
            if _mark(record, number).state != "approved":
                raise Conflict(
                    "this version is not approved", hint=f"POST /v1/templates/{template_id}/versions/{number}/review"
                )
            return record.model_copy(update={"published": number})

        return json_response(
            VersionList.of(await self._changed(caller, template_id, publish, kind="template.published"))
        )

    @api.delete("templates_delete", TEMPLATE)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a template of the workspace. Its author, and admins, may. Jobs that were made from it go on."""

        def delete(record: TemplateRecord) -> TemplateRecord:
            self._require_author(record, caller)
            return record.model_copy(update={"deleted": True, "published": None, "versions": ()})

        await self._changed(caller, path_id(request, TEMPLATE_ID), delete, kind="template.deleted")
        return no_content()

    async def _checked(self, caller: Caller, text: str) -> Definition:
        definition = await _loaded(Asker(caller.member.tenant, caller.member.user), text)
        await check_draft(self._library, caller.member.tenant, definition)
        return definition

    async def _record(self, caller: Caller, template_id: str) -> tuple[TemplateRecord, int]:
        known = await self._records.read(caller.member.tenant, template_id)
        if known is None or known[0].deleted:
            raise NotFound("there is no such template in your workspace", hint="GET /v1/templates lists them")
        return known

    async def _changed(
        self,
        caller: Caller,
        template_id: str,
        change: Callable[[TemplateRecord], TemplateRecord],
        *,
        kind: AdminKind,
        new: StoredVersion | None = None,
    ) -> TemplateRecord:
        async def attempt() -> TemplateRecord:
            record, at = await self._record(caller, template_id)
            changed = change(record)
            if changed == record:
                return record
            kept = await self._records.write(caller.member, changed, at=at, kind=kind, new=new)
            log.info("template_changed", template=template_id, kind=kind)
            return kept

        return await write_optimistically(attempt, contended=_changed_by_others())

    @staticmethod
    def _require_author(record: TemplateRecord, caller: Caller) -> None:
        if record.owner != caller.member.id and not manages(caller.member.role):
            raise Forbidden("this template belongs to another person", hint="they or an admin can change it")


async def _loaded(asker: Asker, text: str) -> Definition:
    try:
        return await in_thread(asker, load, text)
    except TemplateInvalid as error:
        raise InvalidRequest(
            f"the definition is not valid: {error}", hint="GET /v1/templates/schema describes definitions"
        ) from None


def _stored(wanted: NewTemplate, definition: Definition) -> StoredVersion:
    model = definition.model_dump_json(by_alias=True, exclude_unset=True)
    return StoredVersion(definition=wanted.definition, model=model)


def _draft(caller: Caller, number: int) -> VersionMark:
    return VersionMark(number=number, author=caller.member.user, created_at=now())


def _mark(record: TemplateRecord, number: int) -> VersionMark:
    mark = record.version(number)
    if mark is None:
        raise _no_version()
    return mark


def _no_version() -> NotFound:
    return NotFound("there is no such version", hint="GET /v1/templates/{template_id}/versions lists them")


def _changed_by_others() -> Conflict:
    return Conflict("this template is being changed by others", hint="try again in a moment")

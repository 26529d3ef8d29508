"""The handlers that show, render and submit templates."""

from typing import Any

from aiohttp import web
from clusterra_contracts.identity import TEMPLATE_ID_PATTERN
from clusterra_templates.definitions import definition_schema
from pydantic import RootModel

from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds
from clusterra_gateway.http.requests.parameters import Parameter, body, path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, REPLAYED
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.templates.launches import Launches, wanted_of
from clusterra_gateway.templates.library import Library
from clusterra_gateway.templates.models import (
    TEMPLATE,
    TEMPLATES,
    DryRender,
    LaunchableList,
    LaunchablesQuery,
    Launched,
    LaunchRequest,
    RenderedScript,
    RenderQuery,
    StagedPathsView,
    TemplateDetail,
    TemplateList,
    TemplateView,
)

TEMPLATE_ID = Parameter("template_id", "path", f"^{TEMPLATE_ID_PATTERN}$")
LAUNCHABLE_ID = Parameter("launchable_id", "path", f"^{TEMPLATE_ID_PATTERN}$")
BOUNDS = BodyBounds(MAX_BODY_BYTES, 10_000)
"""Values may hold a table of rows."""

LAUNCHABLES = "/v1/launchables"
LAUNCHABLE = f"{LAUNCHABLES}/{{launchable_id}}"
api = caller_routes(TEMPLATE_ID, LAUNCHABLE_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))


class DefinitionSchema(RootModel[dict[str, Any]]):
    """The JSON Schema (2020-12) of definitions."""


SCHEMA = DefinitionSchema(definition_schema())


class Reading:
    """The handlers for everybody."""

    def __init__(self, library: Library, launches: Launches) -> None:
        self._library = library
        self._launches = launches

    @api.get("templates_list", TEMPLATES, result=TemplateList, names=(Named(TEMPLATE, "/templates/0/id"),))
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the templates of the installation and of the caller's workspace, drafts included."""
        found = await self._library.all(caller.member.tenant)
        return json_response(TemplateList(templates=tuple(map(TemplateView.of, found)), total=len(found)))

    @api.get("templates_get", TEMPLATE, result=TemplateDetail)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a template with its parameters and its whole definition."""
        found = await self._library.one(caller.member.tenant, path_id(request, TEMPLATE_ID))
        return json_response(TemplateDetail.of(found))

    @api.get("templates_schema", f"{TEMPLATES}/schema", result=DefinitionSchema)
    async def schema(self, _request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Returns the JSON Schema (2020-12) of definitions: those of version 2, and those of `format: clusterra/1`."""
        return json_response(SCHEMA)

    @api.get(
        "launchables_list",
        LAUNCHABLES,
        query=LaunchablesQuery,
        result=LaunchableList,
        names=(Named(LAUNCHABLE, "/launchables/0/id"),),
    )
    async def launchables(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists what can be submitted: templates, presets and workflows as one list."""
        wanted = query(request, LaunchablesQuery)
        shown = [TemplateView.of(each) for each in await self._library.all(caller.member.tenant) if each.ready]
        shown = [
            each
            for each in shown
            if wanted.kind in (None, each.kind) and wanted.pipeline_repo in (None, each.pipeline_repo)
        ]
        return json_response(LaunchableList(launchables=tuple(shown), total=len(shown)))

    @api.post("launchables_render", f"{LAUNCHABLE}/render", query=RenderQuery, body=LaunchRequest, result=DryRender)
    async def render(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Renders a template and submits nothing: the answer has the script as a submit would make it.

        The body has `params` and `inputs`, or the fields of a form beside each other.
        """
        template_id = path_id(request, LAUNCHABLE_ID)
        wanted = await body(request, LaunchRequest, bounds=BOUNDS)
        caller, ref = await self._launches.on_cluster(caller, wanted.cluster_id)
        version = query(request, RenderQuery).version
        prepared = await self._launches.preview(ref, caller.viewer.user.name, template_id, wanted_of(wanted), version)
        steps = tuple(
            RenderedScript.showing(
                each.rendered,
                step_id=each.step_id,
                template_id=each.template_id,
                depends_on=each.depends_on,
                staging=None if each.rendered.staged is None else StagedPathsView.of(each.rendered.staged),
            )
            for each in prepared.steps
        )
        return json_response(
            DryRender(id=template_id, version=prepared.found.version, script=steps[0].script, steps=steps)
        )

    @api.post(
        "launchables_submit",
        f"{LAUNCHABLE}/submit",
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=LaunchRequest,
        result=Launched,
    )
    async def submit(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Submits a template as the caller: a job, or a run for a workflow.

        Sent again with the same Idempotency-Key and body, it submits nothing more, and answers as before. The rules of
        `jobs/submit` hold.
        """
        wanted = await body(request, LaunchRequest, bounds=BOUNDS)
        launched = await self._launches.launch(request, caller, path_id(request, LAUNCHABLE_ID), wanted)
        place = f"jobs/{launched.job_id}" if launched.job_id is not None else f"runs/{launched.run_id}"
        return json_response(
            launched,
            status=201,
            location=f"/v1/clusters/{launched.cluster_id}/{place}",
            headers={REPLAYED: "true"} if launched.repeated else {},
        )

"""The routes of templates."""

from typing import Any

from clusterra_gateway.http.route import Named, Route
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.private_route import CallerRoute
from clusterra_gateway.templates.authoring import VERSION, Authoring
from clusterra_gateway.templates.launches import Launches
from clusterra_gateway.templates.library import Library
from clusterra_gateway.templates.models import (
    DryRender,
    LaunchableList,
    LaunchablesQuery,
    Launched,
    LaunchRequest,
    NewTemplate,
    RenderQuery,
    Review,
    TemplateDetail,
    TemplateList,
    VersionDetail,
    VersionList,
)
from clusterra_gateway.templates.reading import LAUNCHABLE_ID, TEMPLATE_ID, DefinitionSchema, Reading
from clusterra_gateway.templates.records import TemplateRecords

TEMPLATES = "/v1/templates"
TEMPLATE = f"{TEMPLATES}/{{template_id}}"
VERSIONS = f"{TEMPLATE}/versions"
ONE_VERSION = f"{VERSIONS}/{{number}}"
LAUNCHABLES = "/v1/launchables"
LAUNCHABLE = f"{LAUNCHABLES}/{{launchable_id}}"


def routes(
    access: Access, records: TemplateRecords, library: Library, launches: Launches, once: AnswerOnce
) -> tuple[Route, ...]:
    """All routes of this room. The schema comes before templates: no template has its id."""
    reading, authoring = Reading(library, launches), Authoring(records, library, once)
    read: dict[str, Any] = {"access": access, "scope": "jobs:read"}
    write: dict[str, Any] = {"access": access, "scope": "jobs:write", "role": "member"}
    decide: dict[str, Any] = {"access": access, "scope": "jobs:write", "role": "admin"}
    of_template, of_version, of_launchable = (TEMPLATE_ID,), (TEMPLATE_ID, VERSION), (LAUNCHABLE_ID,)
    return (
        CallerRoute(
            "templates_list",
            "GET",
            TEMPLATES,
            reading.list,
            **read,
            result=TemplateList,
            names=(Named(TEMPLATE, "/templates/0/id"),),
        ),
        CallerRoute("templates_schema", "GET", f"{TEMPLATES}/schema", reading.schema, **read, result=DefinitionSchema),
        CallerRoute(
            "templates_get", "GET", TEMPLATE, reading.get, **read, parameters=of_template, result=TemplateDetail
        ),
        CallerRoute(
            "templates_create",
            "POST",
            TEMPLATES,
            authoring.create,
            **write,
            status=201,
            names=(Named(TEMPLATE, "/id"),),
            parameters=(IDEMPOTENCY_KEY,),
            body=NewTemplate,
            result=VersionList,
        ),
        CallerRoute(
            "templates_delete", "DELETE", TEMPLATE, authoring.delete, **write, status=204, parameters=of_template
        ),
        CallerRoute(
            "templates_versions",
            "GET",
            VERSIONS,
            authoring.versions,
            **read,
            parameters=of_template,
            result=VersionList,
            names=(Named(ONE_VERSION, "/versions/0/version"),),
        ),
        CallerRoute(
            "templates_version",
            "GET",
            ONE_VERSION,
            authoring.version,
            **read,
            parameters=of_version,
            result=VersionDetail,
        ),
        CallerRoute(
            "templates_add_version",
            "POST",
            VERSIONS,
            authoring.add_version,
            **write,
            status=201,
            parameters=(*of_template, IDEMPOTENCY_KEY),
            body=NewTemplate,
            result=VersionList,
            names=(Named(ONE_VERSION, "/versions/0/version"),),
        ),
        CallerRoute(
            "templates_review",
            "POST",
            f"{ONE_VERSION}/review",
            authoring.review,
            **decide,
            parameters=of_version,
            body=Review,
            result=VersionList,
        ),
        CallerRoute(
            "templates_publish",
            "POST",
            f"{ONE_VERSION}/publish",
            authoring.publish,
            **decide,
            parameters=of_version,
            result=VersionList,
        ),
        CallerRoute(
            "launchables_list",
            "GET",
            LAUNCHABLES,
            reading.launchables,
            **read,
            query=LaunchablesQuery,
            result=LaunchableList,
            names=(Named(LAUNCHABLE, "/launchables/0/id"),),
        ),
        CallerRoute(
            "launchables_render",
            "POST",
            f"{LAUNCHABLE}/render",
            reading.render,
            **write,
            query=RenderQuery,
            parameters=of_launchable,
            body=LaunchRequest,
            result=DryRender,
        ),
        CallerRoute(
            "launchables_submit",
            "POST",
            f"{LAUNCHABLE}/submit",
            reading.submit,
            **write,
            status=201,
            parameters=(*of_launchable, IDEMPOTENCY_KEY),
            body=LaunchRequest,
            result=Launched,
        ),
    )

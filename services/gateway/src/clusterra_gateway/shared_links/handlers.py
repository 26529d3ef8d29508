"""The routes by which the owner of a job makes, lists and revokes links to it."""

from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, JobId, Moment, UserName
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.shared_link_records import SharedLink
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import Forbidden
from clusterra_gateway.http.requests.parameters import JOB_ID, Body, Parameter, body, job_id, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce, ShownOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes
from clusterra_gateway.identity.tokens.tokens import DAY
from clusterra_gateway.shared_links.link_tokens import page_path
from clusterra_gateway.shared_links.links import FreshLink, Links

LINKS = f"{CLUSTER}/jobs/{{job_id}}/links"
LINK = f"{LINKS}/{{link_id}}"
LINK_ID = Parameter("link_id", "path", "^[0-9a-f]{16}$")

api = cluster_routes(JOB_ID, LINK_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))

type Shown = Literal["output", "cost", "why", "script"]
"""What a link may show besides the job itself."""


class NewLink(Body):
    """The request for a link."""

    name: Annotated[str, StringConstraints(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """For the owner's list of links. Whoever opens the link does not see it."""
    expires_in_seconds: Annotated[int, Field(ge=300, le=30 * DAY)] = 7 * DAY
    shows: Annotated[tuple[Shown, ...], Field(max_length=4)] = ("why",)
    """What it shows besides the job itself: its output, what it costs, why it waits or how it ended, the script
    that it was submitted with."""


class LinkView(ResponseBody):
    """A link without its secret."""

    id: str
    job_id: JobId
    name: str
    shows: tuple[str, ...]
    """Any of `output`, `cost`, `why` and `script`."""
    made_by: UserName
    created_at: Moment
    expires_at: Moment

    @classmethod
    def of(cls, link_id: str, record: SharedLink) -> "LinkView":
        """The stored link with this id."""
        return cls(
            id=link_id,
            job_id=record.job_id,
            name=record.name,
            shows=record.shows,
            made_by=record.user,
            created_at=record.created_at,
            expires_at=record.valid_until,
        )


class MadeLink(LinkView, ShownOnce):
    """A new link. `token` and `path` hold its secret, and are shown only this once."""

    token: str
    """What the page sends: `Authorization: Bearer clk_...`."""
    path: str
    """The page that shows the job: `/shared#clk_...`. Browsers send what is behind `#` to no server."""


class LinkList(ResponseBody):
    """The valid links of a job."""

    links: tuple[LinkView, ...]
    total: int


class LinkHandlers:
    """The handlers of a job's links."""

    def __init__(self, links: Links, slurm: SlurmRequests, once: AnswerOnce) -> None:
        self._links = links
        self._slurm = slurm
        self._once = once

    @api.post(
        "links_make",
        LINKS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewLink,
        result=MadeLink,
        names=(Named(LINK, "/id"),),
    )
    async def make(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes a link that shows this job, read only, to whoever has it. Only the owner of the job may.

        It shows the job as its owner sees it at that moment, until it expires or is revoked, and nothing of what the
        owner does not let it show. One that an API token makes ends with the token. 409 for more than 20 links of a
        job, or 200 of a person.

        With an Idempotency-Key that has made a link already, 409 names it: its secret is not shown again.
        """
        wanted = await body(request, NewLink)
        owner = f"{ref.key}#{caller.member.id}"
        return await self._once.answer(
            request, owner, wanted, partial(self._make, caller, ref, job_id(request), wanted)
        )

    async def _make(self, caller: Caller, ref: ClusterRef, job_id: JobId, wanted: NewLink) -> MadeLink:
        job = await self._slurm.job(ref, caller.viewer, job_id)
        if not caller.viewer.owns(job.uid):
            raise _of_another(job_id)
        shows = tuple(dict.fromkeys(wanted.shows))
        made = FreshLink.made(caller, ref, job, wanted.name, shows, wanted.expires_in_seconds)
        await self._links.add(caller.member, made)
        view = LinkView.of(made.id, made.record).model_dump()
        return MadeLink(**view, token=made.token, path=page_path(made.token))

    @api.get("links_list", LINKS, result=LinkList, names=(Named(LINK, "/links/0/id"),))
    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists the caller's valid links to this job, without their secrets; for an admin everybody's."""
        job = job_id(request)
        found = await self._links.seen(caller, ref, job)
        # Links are listed also of a job that Slurm has forgotten. Without any, only who may change the job learns so.
        if not found and not caller.viewer.changes((await self._slurm.job(ref, caller.viewer, job)).uid):
            raise _of_another(job)
        shown = tuple(LinkView.of(*each) for each in found)
        return json_response(LinkList(links=shown, total=len(shown)))

    @api.delete("links_revoke", LINK)
    async def revoke(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Revokes a link of the caller, or anybody's for an admin. It shows nothing from then on, on all replicas."""
        await self._links.revoke(caller.member, ref, job_id(request), path_id(request, LINK_ID))
        return no_content()


def _of_another(job_id: JobId) -> Forbidden:
    return Forbidden(f"job {job_id} belongs to another user", hint="only its owner may share it")

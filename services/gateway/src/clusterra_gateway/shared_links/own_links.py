"""The caller's links to all their jobs: the handler of `/v1/users/me/links`."""

from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Id
from clusterra_runtime.store.page import InvalidCursor
from pydantic import Field

from clusterra_gateway.accounts.shared_link_records import SharedLink
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import Query, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.shared_links.handlers import LinkView
from clusterra_gateway.shared_links.links import Links

api = caller_routes(reads=Needs("jobs:read"))


class OwnLinksQuery(Query):
    """`cursor`: where a page before has ended."""

    limit: Annotated[int, Field(ge=1, le=100)] = 50
    cursor: str | None = None


class OwnLink(LinkView):
    """A link of the caller without its secret, and the cluster of its job. All three ids are needed to revoke it."""

    cluster_id: Id

    @classmethod
    def of_caller(cls, link_id: str, record: SharedLink) -> "OwnLink":
        """The stored link with this id."""
        return cls(**LinkView.of(link_id, record).model_dump(), cluster_id=record.cluster)


class OwnLinks(ResponseBody):
    """A page of links, in no order of time. It may have fewer than asked for; `cursor` is null at the end."""

    links: tuple[OwnLink, ...]
    cursor: str | None


class OwnLinkHandlers:
    """The handler of the caller's links."""

    def __init__(self, links: Links) -> None:
        self._links = links

    @api.get("own_links_list", "/v1/users/me/links", query=OwnLinksQuery, result=OwnLinks)
    async def list(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the links that the caller has made to their jobs in all clusters, without their secrets.

        Those that have expired or were revoked are not listed.
        """
        wanted = query(request, OwnLinksQuery)
        try:
            found, cursor = await self._links.own(caller.member, limit=wanted.limit, cursor=wanted.cursor)
        except InvalidCursor as error:
            raise InvalidRequest(str(error), hint="leave `cursor` out to begin with the first link") from None
        return json_response(OwnLinks(links=tuple(OwnLink.of_caller(*each) for each in found), cursor=cursor))

"""The routes of the caller's saved views: lists with their filters, under names."""

from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.identity import Moment, now
from pydantic import StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.parameters import Body, Parameter, body, path_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.people.saved_views import SavedView, SavedViews

VIEWS = "/v1/users/me/views"
VIEW = f"{VIEWS}/{{view_name}}"
VIEW_NAME = Parameter(
    "view_name",
    "path",
    r"^[^\x00-\x1f\x7f/.][^\x00-\x1f\x7f/]{0,59}$",
    "The name that the caller gives the view: 1 to 60 characters without `/`, and no `.` at its beginning.",
    chosen=True,
)

api = caller_routes(VIEW_NAME, reads=Needs("profile"))

ViewedPage = Literal["jobs", "files", "fleet", "costs", "activity", "workflows", "templates"]


class ViewToSave(Body):
    """The list to save."""

    page: ViewedPage
    query: Annotated[str, StringConstraints(max_length=2000, pattern=r"^[\x20-\x7e]*$")]
    """The filters and the order, as a console writes them into its address. The gateway does not read it."""


class SavedViewView(ResponseBody):
    """A saved view."""

    name: str
    page: str
    """One of the pages that a view can be saved for; a newer release may know others."""
    query: str
    saved_at: Moment

    @classmethod
    def of(cls, name: str, view: SavedView) -> "SavedViewView":
        """The view with this name."""
        return cls.showing(view, name=name)


class SavedViewList(ResponseBody):
    """All saved views of the caller."""

    views: tuple[SavedViewView, ...]
    total: int


class SavedViewHandlers:
    """The handlers of saved views."""

    def __init__(self, views: SavedViews) -> None:
        self._views = views

    @api.get("views_list", VIEWS, result=SavedViewList)
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the views that the caller has saved, in the order of their names. Nobody else sees them."""
        found = await self._views.all(caller.member.id)
        shown = tuple(SavedViewView.of(*each) for each in found.items())
        return json_response(SavedViewList(views=shown, total=len(shown)))

    @api.put("views_save", VIEW, body=ViewToSave, result=SavedViewView)
    async def save(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Saves a view of a list for the caller, in place of the one with this name if there is one.

        409 for more than 50.
        """
        name, wanted = path_id(request, VIEW_NAME), await body(request, ViewToSave)
        view = SavedView(page=wanted.page, query=wanted.query, saved_at=now())
        await self._views.save(caller.member.id, name, view)
        return json_response(SavedViewView.of(name, view))

    @api.delete("views_delete", VIEW)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a saved view of the caller."""
        await self._views.delete(caller.member.id, path_id(request, VIEW_NAME))
        return no_content()

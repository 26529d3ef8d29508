"""Builds successful responses. No response of the API may be stored by a cache."""

from http import HTTPStatus

from aiohttp import web
from pydantic import BaseModel, ConfigDict

NO_STORE = {"Cache-Control": "no-store"}


class ResponseBody(BaseModel):
    """Base of the models of JSON responses."""

    model_config = ConfigDict(frozen=True)


def json_response(model: BaseModel, *, status: int = HTTPStatus.OK, location: str | None = None) -> web.Response:
    """A model as JSON; `location` is the URL of a resource that the request created."""
    headers = dict(NO_STORE)
    if location is not None:
        headers["Location"] = location
    return web.Response(
        body=model.model_dump_json().encode(), status=status, content_type="application/json", headers=headers
    )


def redirect(status: HTTPStatus, location: str) -> web.Response:
    """A redirect of the browser to `location`."""
    return web.Response(status=status, headers={"Location": location, **NO_STORE})


def no_content() -> web.Response:
    """204: the request was carried out and there is nothing to return."""
    return web.Response(status=HTTPStatus.NO_CONTENT)

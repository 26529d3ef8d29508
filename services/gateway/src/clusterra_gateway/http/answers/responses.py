"""Builds successful responses. No response of the API may be stored by a cache."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from pydantic import BaseModel, ConfigDict

NO_STORE = {"Cache-Control": "no-store"}
COMPRESSED_ON_THREAD_FROM_BYTES = 64 * 1024
"""The compression of a larger body would hold up other requests for more than a millisecond."""


class ResponseBody(BaseModel):
    """Base of the models of JSON responses."""

    model_config = ConfigDict(frozen=True)


def json_response(
    model: BaseModel,
    *,
    status: int = HTTPStatus.OK,
    location: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> web.Response:
    """A model as JSON; `location` is the URL of a resource that the request created."""
    headers = {**NO_STORE, **headers}
    if location is not None:
        headers["Location"] = location
    return json_bytes(model.model_dump_json().encode(), status=status, headers=headers)


def json_bytes(
    body: bytes, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] = MappingProxyType(NO_STORE)
) -> web.Response:
    """JSON that is already written. A large one is compressed on a thread."""
    return web.Response(
        body=body,
        status=status,
        content_type="application/json",
        headers=headers,
        zlib_executor_size=COMPRESSED_ON_THREAD_FROM_BYTES,
    )


def redirect(status: HTTPStatus, location: str) -> web.Response:
    """A redirect of the browser to `location`, with the type that a page there has."""
    return web.Response(status=status, headers={"Location": location, **NO_STORE}, content_type="text/html")


def no_content() -> web.Response:
    """204: the request was carried out and there is nothing to return."""
    return web.Response(status=HTTPStatus.NO_CONTENT)

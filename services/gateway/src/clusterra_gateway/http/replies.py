"""Answering with a model as JSON."""

from http import HTTPStatus

from aiohttp import web
from pydantic import BaseModel


def reply(model: BaseModel, *, status: int = HTTPStatus.OK, location: str | None = None) -> web.Response:
    """A model's JSON. Nothing here is ever to be cached by anybody between."""
    headers = {"Cache-Control": "no-store"}
    if location is not None:
        headers["Location"] = location
    return web.Response(
        body=model.model_dump_json().encode(), status=status, content_type="application/json", headers=headers
    )

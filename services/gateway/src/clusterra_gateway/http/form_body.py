"""Reads the form of a request, as browsers and OAuth clients send it."""

from urllib.parse import parse_qsl

from aiohttp import web
from pydantic import BaseModel

from clusterra_gateway.http.errors import InvalidRequest, UnsupportedMedia
from clusterra_gateway.http.json_body import read_within
from clusterra_gateway.http.parameters import checked

FORM = "application/x-www-form-urlencoded"
MAX_BYTES = 16 * 1024
MAX_FIELDS = 50


async def form[B: BaseModel](request: web.Request, model: type[B]) -> B:
    """Reads a form. A field without a value counts as not given (RFC 6749, section 3.2).

    Raises InvalidRequest, TooLarge, UnsupportedMedia.
    """
    if request.content_type != FORM:
        raise UnsupportedMedia("the body must be a form", hint=f"send it with `Content-Type: {FORM}`")
    content = await read_within(request, MAX_BYTES)
    try:
        fields = parse_qsl(content.decode(), max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        hint = f"send at most {MAX_FIELDS} fields, in UTF-8"
        raise InvalidRequest("the form cannot be read", hint=hint) from None
    known = [name for name, _ in fields if name in model.model_fields]
    if len(set(known)) < len(known):
        raise InvalidRequest("a field of the form is given twice", hint="send each field once")
    return checked(model, dict(fields))

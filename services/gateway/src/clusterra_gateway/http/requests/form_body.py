"""Reads the form of a request, as browsers and OAuth clients send it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from aiohttp import web
from pydantic import BaseModel

from clusterra_gateway.http.requests.errors import InvalidRequest, UnsupportedMedia
from clusterra_gateway.http.requests.json_body import read_within
from clusterra_gateway.http.requests.parameters import checked

FORM = "application/x-www-form-urlencoded"
MAX_BYTES = 16 * 1024
MAX_FIELDS = 50


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form. One without a value counts as not given (RFC 6749, section 3.2)."""

    fields: Mapping[str, str]
    repeated: frozenset[str]

    def read[B: BaseModel](self, model: type[B]) -> B:
        """Reads the fields into a model. Raises InvalidRequest."""
        if self.repeated & model.model_fields.keys():
            raise InvalidRequest("a field of the form is given twice", hint="send each field once")
        return checked(model, self.fields)


async def read_form(request: web.Request) -> Form:
    """Reads a form. Raises InvalidRequest, TooLarge, UnsupportedMedia."""
    if request.content_type != FORM:
        raise UnsupportedMedia("the body must be a form", hint=f"send it with `Content-Type: {FORM}`")
    content = await read_within(request, MAX_BYTES)
    try:
        fields = parse_qsl(content.decode(), max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        hint = f"send at most {MAX_FIELDS} fields, in UTF-8"
        raise InvalidRequest("the form cannot be read", hint=hint) from None
    times = Counter(name for name, _ in fields)
    return Form(dict(fields), frozenset(name for name, number in times.items() if number > 1))


async def form[B: BaseModel](request: web.Request, model: type[B]) -> B:
    """Reads a form into a model. Raises InvalidRequest, TooLarge, UnsupportedMedia."""
    return (await read_form(request)).read(model)

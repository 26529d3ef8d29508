"""Builds successful responses, the amounts of money in them, and plain pages. No cache may store any of them."""

import base64
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Literal, Self

from aiohttp import web
from pydantic import BaseModel, ConfigDict

NO_STORE = {"Cache-Control": "no-store"}
EXTRA_HEADERS = web.RequestKey("extra_headers", dict[str, str])
"""Headers that the response to this request gets, whatever it becomes."""
COMPRESSED_ON_THREAD_FROM_BYTES = 64 * 1024
"""The compression of a larger body would hold up other requests for more than a millisecond."""


class ResponseBody(BaseModel):
    """Base of the models of JSON responses."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def showing(cls, source: object, **others: Any) -> Self:
        """The body with the values of `source` for the fields that are not among `others`, by their names."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields if name not in others}, **others)


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


CURRENCY: Literal["USD"] = "USD"
"""Prices are in US dollars."""


class Money(ResponseBody):
    """An amount with six decimals, such as `1.250000`."""

    amount: str
    currency: Literal["USD"] = CURRENCY

    @classmethod
    def of(cls, micro_usd: int) -> Self:
        """Millionths as money."""
        return cls(amount=decimal(micro_usd))


def decimal(micro_usd: int) -> str:
    """Millionths as a decimal string."""
    whole, part = divmod(abs(micro_usd), 1_000_000)
    return f"{'-' if micro_usd < 0 else ''}{whole}.{part:06d}"


def money(micro_usd: int | None) -> Money | None:
    """Millionths as money; None stays unknown."""
    return None if micro_usd is None else Money.of(micro_usd)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 36em; margin: 3em auto; padding: 0 1em; color: #1b1f24 }
h1 { font-size: 1.4em } dt { color: #57606a } dd { margin: 0 0 .7em 0; overflow-wrap: anywhere }
input, button { font: inherit; padding: .4em .8em } button { margin: .5em .5em 0 0 } code { font-size: 1.1em }
"""
_STYLE_HASH = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def page(
    request: web.Request, title: str, body: str, *, status: int = HTTPStatus.OK, form_target: str = ""
) -> web.Response:
    """A page. `title` is text, and `body` HTML whose values are escaped already.

    Its forms go to our own origin. `form_target` is another origin that the answer to a form may lead to.
    """
    policy = (
        "default-src 'none'",
        f"style-src 'sha256-{_STYLE_HASH}'",
        "img-src data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        f"form-action 'self' {form_target}".rstrip(),
    )
    request[EXTRA_HEADERS] = {
        **request.get(EXTRA_HEADERS, {}),
        "Content-Security-Policy": "; ".join(policy),
        # With `no-referrer` browsers send `Origin: null` with a form.
        "Referrer-Policy": "same-origin",
    }
    text = _HTML.format(title=escape(title), style=_STYLE, body=body)
    return web.Response(text=text, content_type="text/html", status=status, headers=NO_STORE)

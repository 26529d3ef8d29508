"""The API page: Swagger UI on the OpenAPI document, from which calls can be tried.

The gateway serves all of it from an installed package, so that the page also works without access to the internet.
"""

import asyncio
import gzip
import re
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from http import HTTPStatus
from importlib.resources import files

from aiohttp import web

from clusterra_gateway.http.answers.responses import EXTRA_HEADERS
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.route import PublicRoute, Route

PAGE = "/v1/docs"

_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # Swagger UI sets styles in attributes
        "img-src 'self' data:",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
_HTML = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Clusterra API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{PAGE}/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<noscript>This page needs JavaScript. The OpenAPI document: <a href="/v1/openapi.json">/v1/openapi.json</a></noscript>
<div id="swagger-ui"></div>
<script src="{PAGE}/swagger-ui-bundle.js"></script>
<script src="{PAGE}/start.js"></script>
</body>
</html>
"""
# Without `validatorUrl: null` the page would send the document's address to a public validator.
_START = """SwaggerUIBundle({
  url: "/v1/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  filter: true,
  validatorUrl: null,
  persistAuthorization: false,
});
"""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the page, compressed once and not for each request."""

    content: bytes
    content_type: str
    compressed: bytes
    etag: str

    @classmethod
    def of(cls, content: bytes, content_type: str) -> "_File":
        return cls(content, content_type, gzip.compress(content), blake2b(content, digest_size=16).hexdigest())


_INSTALLED = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_NAMES = (*_INSTALLED, "start.js")


@cache
def _file(name: str) -> _File:
    """A file of the page. To compress the largest takes 50 ms: only the first request for it does so."""
    if name not in _INSTALLED:
        return _File.of(_START.encode(), "text/javascript")
    return _File.of((files("swagger_ui") / "static" / name).read_bytes(), _INSTALLED[name])


_NAME = Parameter("name", "path", f"^({'|'.join(map(re.escape, _NAMES))})$")


async def api_page(request: web.Request) -> web.StreamResponse:
    """Shows this document as a page, from which calls can be tried.

    In a browser that is signed in the calls are those of its session. Otherwise enter an API token there.
    """
    request[EXTRA_HEADERS] = {"Content-Security-Policy": _CONTENT_SECURITY_POLICY}
    return web.Response(text=_HTML, content_type="text/html", headers={"Cache-Control": "no-store"})


async def api_page_file(request: web.Request) -> web.StreamResponse:
    """Returns a script or a style of the page."""
    name = path_id(request, _NAME)
    if name not in _NAMES:
        raise NotFound("the page has no such file", hint=f"GET {PAGE} is the page")
    file = await asyncio.to_thread(_file, name)
    headers = {"Cache-Control": "public, max-age=3600", "ETag": f'"{file.etag}"', "Vary": "Accept-Encoding"}
    if any(known.value in (file.etag, "*") for known in request.if_none_match or ()):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        compressed = {**headers, "Content-Encoding": "gzip"}
        return web.Response(body=file.compressed, content_type=file.content_type, charset="utf-8", headers=compressed)
    return web.Response(body=file.content, content_type=file.content_type, charset="utf-8", headers=headers)


ROUTES: tuple[Route, ...] = (
    PublicRoute("api_page", "GET", PAGE, api_page, result="text/html"),
    PublicRoute("api_page_file", "GET", f"{PAGE}/{{name}}", api_page_file, parameters=(_NAME,), result="*/*"),
)

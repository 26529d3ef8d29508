"""The routes of the console: its page, at every address that a person may open or keep, and its files."""

import secrets
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import override

from aiohttp import ETag, web
from clusterra_runtime.store.store import StoreError
from pydantic import ValidationError

from clusterra_gateway.console.policy import MAX_ORIGINS, SCRIPT_HEADERS, page_headers
from clusterra_gateway.console.site import ASSETS, NAME, Site, SiteFile
from clusterra_gateway.files.origins import BucketOrigins
from clusterra_gateway.http.answers.responses import EXTRA_HEADERS, NO_STORE
from clusterra_gateway.http.requests.errors import NotFound, RequestError
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.route import PublicRoute
from clusterra_gateway.http.routes.route_group import RouteGroup, public_routes
from clusterra_gateway.identity.access.access import Access

PAGE = "/"
ADDRESSES = ("/sign-in", "/device", "/c/{page:.+}", "/shared", "/invitation")
"""The further addresses of the page, which shows in each what belongs there."""
NONCE = b"CSP_NONCE"
"""The word in the page that the nonce of an answer takes the place of."""
FOREVER = "public, max-age=31536000, immutable"
"""The name of a file has a hash of its content."""
FILE_NAME = Parameter("name", "path", NAME)


@dataclass(frozen=True)
class _PageRoute(PublicRoute):
    """The route of the page, which monitors ask for with HEAD."""

    @property
    @override
    def has_head(self) -> bool:
        return True


pages = RouteGroup[[web.Request]](_PageRoute)
files = public_routes(FILE_NAME)


class ConsoleHandlers:
    """Serves the console that was read at the start of the process; None: there is none."""

    def __init__(self, site: Site | None, access: Access, origins: BucketOrigins) -> None:
        self._site = site
        self._access = access
        self._origins = origins

    @pages.get("console_page", PAGE, result="text/html", aliases=ADDRESSES)
    async def page(self, request: web.Request) -> web.StreamResponse:
        """Shows the console in a browser. 404 where the installation has none.

        Everybody may load it: it has no data, and reads them with the session of the browser.
        """
        site, nonce = self._there(), secrets.token_urlsafe(18)
        request[EXTRA_HEADERS] = page_headers(nonce, await self._bucket_origins(request))
        body = site.page.replace(NONCE, nonce.encode())
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=NO_STORE)

    @files.get("console_file", f"/{ASSETS}/{{name}}", result="*/*")
    async def file(self, request: web.Request) -> web.StreamResponse:
        """Returns a script, a style, a font or a picture of the console."""
        file = self._there().files.get(path_id(request, FILE_NAME))
        if file is None:
            raise NotFound("the console has no such file", hint="load its page again: a newer release has other files")
        if file.script:
            request[EXTRA_HEADERS] = dict(SCRIPT_HEADERS)
        return _answer(request, file)

    def _there(self) -> Site:
        if self._site is None:
            raise NotFound(
                "this gateway has no console", hint="CLUSTERRA_CONSOLE_DIR names its folder; /v1/docs has the API"
            )
        return self._site

    async def _bucket_origins(self, request: web.Request) -> list[str]:
        """The origins of the buckets of the caller's tenant; none for anybody who is not known now."""
        try:
            caller = await self._access.caller(request)
        except (RequestError, StoreError, ValidationError):
            return []  # the page itself says how to sign in, or that a part is unavailable
        return list(islice(await self._origins.of(caller.tenant), MAX_ORIGINS))


def _answer(request: web.Request, file: SiteFile) -> web.Response:
    # Weak, because the same file may be sent with and without compression.
    etag = ETag(file.digest, is_weak=True)
    headers = {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
    if any(known.value in (etag.value, "*") for known in request.if_none_match or ()):
        response = web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    else:
        accepted = _accepted(request.headers.get("Accept-Encoding", ""))
        coding = next((each for each in file.compressed if each in accepted), None)
        if coding is not None:
            headers["Content-Encoding"] = coding
        response = web.Response(
            body=file.content if coding is None else file.compressed[coding],
            content_type=file.content_type,
            charset="utf-8" if file.text else None,
            headers=headers,
        )
    response.etag = etag
    return response


def _accepted(header: str) -> set[str]:
    """The content codings that a client takes, in lower case (RFC 9110, 12.5.3). `*` is not taken for any."""
    found = set[str]()
    for each in header.lower().split(","):
        coding, *parameters = (part.strip() for part in each.split(";"))
        if not any(part.startswith("q=") and not part.removeprefix("q=").strip("0.") for part in parameters):
            found.add(coding)
    return found

"""The routes of sign-in for programs: those that programs call, and pages for people."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from html import escape
from http import HTTPStatus
from typing import ClassVar, Literal, override
from urllib.parse import quote, urlencode

from aiohttp import web
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import BaseModel

from clusterra_gateway.http.answers.problems import STATUS
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, page, redirect
from clusterra_gateway.http.requests.errors import (
    Forbidden,
    RequestError,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from clusterra_gateway.http.requests.parameters import FORM, Parameter, read_form
from clusterra_gateway.http.routes.route import PublicHandler, Route, SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import SESSION_COOKIES

AUTHORIZE = "/v1/auth/authorize"
DEVICE = "/v1/auth/device"
"""The pages on which a person decides; programs begin the device flow there, too."""

type OAuthCode = Literal[
    "access_denied",
    "authorization_pending",
    "expired_token",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "slow_down",
    "temporarily_unavailable",
    "unsupported_grant_type",
]
"""The error codes of RFC 6749 (sections 4.1.2.1 and 5.2) and RFC 8628 (section 3.5) that we answer."""
_OF_FIELD: dict[str, OAuthCode] = {
    "#/client_id": "invalid_client",
    "#/scope": "invalid_scope",
    "#/grant_type": "unsupported_grant_type",
}
"""The codes of wrong fields that have one of their own."""


class OAuthError(ResponseBody):
    """The body of an error (RFC 6749, section 5.2)."""

    error: OAuthCode
    error_description: str


class OAuthFailure(Exception):
    """A request that OAuth has an error code for."""

    def __init__(self, error: OAuthCode, description: str) -> None:
        super().__init__(description)
        self.error: OAuthCode = error
        self.description = description


@dataclass(frozen=True)
class OAuthRoute(Route):
    """A route for programs that have no credential yet. Its errors have OAuth's shape."""

    error: ClassVar[type[BaseModel] | str | None] = OAuthError

    handler: PublicHandler

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        return frozenset({HTTPStatus.TOO_MANY_REQUESTS})

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self.handler(request)
        except OAuthFailure as failure:
            told = OAuthError(error=failure.error, error_description=failure.description)
            return json_response(told, status=HTTPStatus.BAD_REQUEST)
        except RequestError as error:
            return _error_answer(error)
        except StoreUnavailable:
            return _error_answer(Unavailable("a part of the gateway does not answer now", hint="try again"))


def _error_answer(error: RequestError) -> web.Response:
    status = STATUS[type(error)]
    code: OAuthCode = "temporarily_unavailable" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request"
    if isinstance(error, TooManyRequests):
        code = "slow_down"
    for field in error.errors:
        code = _OF_FIELD.get(field.place, code)
    headers = {} if error.retry_after_seconds is None else {"Retry-After": str(error.retry_after_seconds)}
    return json_response(OAuthError(error=code, error_description=error.detail), status=status, headers=headers)


DECISION = "decision"
"""The field of a page's form with the person's decision."""

type PageHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class PageRoute(Route):
    """A page for a person who is signed in in this browser. Others are sent to sign in, and then to the page.

    Its errors are pages, too.
    """

    security: ClassVar[tuple[SecurityScheme, ...]] = SESSION_COOKIES
    error: ClassVar[type[BaseModel] | str | None] = "text/html"

    handler: PageHandler
    _: KW_ONLY
    access: Access
    page: str
    """The path of the page, to which a person goes after the sign-in."""

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        found = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
        return found if self.method == "GET" else found | {HTTPStatus.UNAUTHORIZED, HTTPStatus.CONFLICT}

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        try:
            caller = await self.access.caller(request)
            if caller.credential != "session":
                raise Forbidden("a token cannot sign in other programs", hint="open the page in a browser")
            self.access.limits.admit(request, caller.member.id)
            return await self.handler(request, caller)
        except Unauthenticated:
            return await self._sign_in_first(request)
        except RequestError as error:
            return _error_page(request, error)

    async def _sign_in_first(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return redirect(HTTPStatus.SEE_OTHER, _login(request.path_qs))
        try:
            given = (await read_form(request)).fields
        except RequestError as error:
            return _error_page(request, error)
        # The page once more, and no redirect: `form-action` would not let a form lead to the issuer.
        again = f"{self.page}?{urlencode({name: given[name] for name in given if name != DECISION})}"
        body = f'<p>Your session has ended. <a href="{escape(_login(again))}">Sign in</a></p>'
        return page(request, "Sign in again", body, status=HTTPStatus.UNAUTHORIZED)


def _error_page(request: web.Request, error: RequestError) -> web.Response:
    body = f"<p>{escape(error.detail)}</p><p>{escape(error.hint)}</p>"
    response = page(request, "This did not work", body, status=STATUS[type(error)])
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def _login(return_to: str) -> str:
    return f"/v1/auth/login?return_to={quote(return_to, safe='')}"


def oauth_routes() -> RouteGroup[[web.Request]]:
    """Routes for programs. Their bodies are forms."""
    return RouteGroup(OAuthRoute, changes={"body_type": FORM})


def page_routes(page: str, *parameters: Parameter) -> RouteGroup[[web.Request, Caller]]:
    """The page at this path, and what its form sends."""
    return RouteGroup(PageRoute, parameters, {"page": page}, {"page": page, "body_type": FORM})

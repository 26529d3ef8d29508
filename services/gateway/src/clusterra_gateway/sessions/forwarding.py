"""The reverse proxy of sessions: passes requests on to a session's server, and its answers back, both as streams."""

from collections.abc import Mapping

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from clusterra_gateway.http.answers.streams import break_off
from clusterra_gateway.sessions.entrance import ServerToken
from clusterra_gateway.sessions.lookup import FoundSession
from clusterra_gateway.sessions.page_credentials import is_ours

_HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade"),
    }
)
_NOT_PASSED_ON = _HOP_BY_HOP | {"authorization", "cookie", "expect"}
_NOT_PASSED_BACK = _HOP_BY_HOP | {"set-cookie"}
_SKIPPED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""The headers that aiohttp's client would add by itself."""
CHUNK_BYTES = 64 * 1024
_FINAL = range(200, 600)
"""The statuses of answers. 101 would make proxies before us take the connection for another protocol's."""


def target_of(request: web.Request, reached: FoundSession, prefix: str) -> URL:
    """The URL in aiohttp's client: the path as the browser sent it, without the prefix where the server wants none."""
    raw = request.rel_url.raw_path_qs
    assert reached.view.ready is not None  # noqa: S101 - only ready sessions are passed on to
    if reached.view.ready.strip_prefix:
        raw = raw.removeprefix(prefix) or "/"
        raw = raw if raw.startswith("/") else f"/{raw}"
    return URL(f"http://{reached.host}{raw}", encoded=True)


def headers_of(request: web.Request, token: ServerToken) -> CIMultiDict[str]:
    """The headers of a request, with the server's token and without what is the gateway's.

    A session never sees a credential of the API.
    """
    named = _named_by_connection(request.headers)
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in _NOT_PASSED_ON and name.lower() not in named
    )
    cookies = [
        pair
        for line in request.headers.getall("Cookie", [])
        for pair in (each.strip() for each in line.split(";"))
        if pair and not is_ours(name := pair.partition("=")[0].strip()) and name != token.cookie
    ]
    if token.cookie is not None:
        cookies.append(f"{token.cookie}={token.token}")
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    headers["Authorization"] = f"token {token.token}"
    headers["X-Forwarded-Proto"] = request.scheme
    return headers


async def forward(
    request: web.Request, session: aiohttp.ClientSession, url: URL, token: ServerToken
) -> web.StreamResponse:
    """Passes one request on. Raises aiohttp.ClientError when the session does not answer."""
    async with session.request(
        request.method,
        url,
        headers=headers_of(request, token),
        data=request.content if request.can_read_body else None,
        allow_redirects=False,
        skip_auto_headers=_SKIPPED,
    ) as answer:
        if answer.status not in _FINAL:
            raise aiohttp.ClientPayloadError("the session's answer has no status of HTTP")
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        named = _named_by_connection(answer.headers)
        for name, value in answer.headers.items():
            if name.lower() not in _NOT_PASSED_BACK and name.lower() not in named:
                response.headers.add(name, value)
        for line in answer.headers.getall("Set-Cookie", []):
            if (kept := own_cookie(line)) is not None:
                response.headers.add("Set-Cookie", kept)
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
                await response.write(chunk)
        except aiohttp.ClientError:
            break_off(request)
            return response
        await response.write_eof()
        return response


def _named_by_connection(headers: Mapping[str, str]) -> frozenset[str]:
    return frozenset(each.strip().lower() for each in headers.get("Connection", "").split(","))


def own_cookie(line: str) -> str | None:
    """A cookie that a session may set: for this host alone, and none of ours; else None."""
    name = line.partition("=")[0].strip()
    # One without a name comes back as its value alone, in which any name may stand.
    if not name or is_ours(name):
        return None
    parts = [each.strip() for each in line.split(";")]
    return "; ".join(each for each in parts if each.partition("=")[0].strip().lower() != "domain")

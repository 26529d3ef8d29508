"""Pages for people in browsers: plain HTML with one style, without scripts."""

import base64
from hashlib import sha256
from html import escape
from http import HTTPStatus

from aiohttp import web

from clusterra_gateway.http.answers.middleware import EXTRA_HEADERS
from clusterra_gateway.http.answers.responses import NO_STORE

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

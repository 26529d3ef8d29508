"""The token of a shared link: its form, and the path of the page that shows the job.

It is no member's token: nothing but the routes of shared links takes it. In the path it stands behind `#`: a browser
sends that part of an address to no server, so neither a log nor a `Referer` has it.
"""

import re

from clusterra_gateway.http.requests.errors import Unauthenticated

_TOKEN = re.compile(r"clk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


def join_link(link_id: str, secret: str) -> str:
    """The token of a link, as its page sends it."""
    return f"clk_{link_id}_{secret}"


def split_link(token: str | None) -> tuple[str, str]:
    """The id and the secret of a link. Raises Unauthenticated for what is no token of a link."""
    found = None if token is None else _TOKEN.fullmatch(token)
    if found is None:
        raise Unauthenticated(
            "the request has no token of a shared link", hint="send `Authorization: Bearer clk_...`, as in the link"
        )
    return found[1], found[2]


def page_path(token: str) -> str:
    """The path of the page that shows what the link shows."""
    return f"/shared#{token}"

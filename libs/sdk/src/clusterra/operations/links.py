"""Links that show one job, read only, to whoever has them: made, listed and revoked."""

from collections.abc import Sequence
from typing import Any

from clusterra.exchange import Request, Steps, Stream
from clusterra.models import MadeLink, OwnLink, OwnLinks, SharedLink, SharedLinks
from clusterra.operations.api import Api, segment
from clusterra.operations.pages import paged
from clusterra.operations.people import DAY_SECONDS, ME


def make(api: Api, job_path: str, name: str, shows: Sequence[str], days: float) -> Steps[MadeLink]:
    """Make a link to the job at a path. Its secret is shown only in this answer."""
    body: dict[str, Any] = {"name": name, "shows": list(shows), "expires_in_seconds": round(days * DAY_SECONDS)}
    return api.parsed(MadeLink, (yield from api.ask(Request("POST", f"{job_path}/links", body=body))))


def of_job(api: Api, job_path: str) -> Steps[list[SharedLink]]:
    """The valid links to the job at a path: the caller's, or everybody's for an admin."""
    return list((yield from api.read(SharedLinks, f"{job_path}/links")).links)


def revoke(api: Api, job_path: str, link_id: str) -> Steps[None]:
    """Revoke a link to the job at a path."""
    yield from api.carried_out(Request("DELETE", f"{job_path}/links/{segment(link_id)}"))


def own(api: Api) -> Stream[OwnLink]:
    """The caller's valid links to jobs of all clusters."""
    yield from paged(api, Request("GET", f"{ME}/links"), OwnLinks, lambda page: (page.links, page.cursor), None)

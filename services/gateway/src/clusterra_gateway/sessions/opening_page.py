"""A page on the API's origin, from which a person enters one of their sessions."""

from html import escape

from aiohttp import web

from clusterra_gateway.http.answers.middleware import EXTRA_HEADERS
from clusterra_gateway.http.answers.page import page
from clusterra_gateway.http.requests.parameters import JOB_ID, job_id
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER_ID
from clusterra_gateway.program_sign_in.oauth_routes import page_routes
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.handlers import SESSION, SESSIONS
from clusterra_gateway.sessions.session_jobs import SessionJobs
from clusterra_gateway.settings import origin_of

api = page_routes(SESSIONS, CLUSTER_ID, JOB_ID)


class OpeningPage:
    """The page with the form that takes a ticket to the sessions' origin."""

    def __init__(self, access: Access, jobs: SessionJobs, entrance: Entrance) -> None:
        self._access = access
        self._jobs = jobs
        self._entrance = entrance

    @api.get("sessions_open", f"{SESSION}/open", result="text/html")
    async def show(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Shows a button that opens one of the caller's sessions in this browser."""
        caller, ref = await self._access.on_cluster(request, caller)
        view = await self._jobs.find(ref, caller.member.id, caller.slurm_user, job_id(request))
        made = await self._entrance.ticket(caller, ref, view)
        body = (
            f"<p>{escape(view.record.name)}, job {view.record.job_id}: {view.state}. {escape(view.detail)}</p>"
            f'<form method="post" action="{escape(made.url)}">'
            f'<input type="hidden" name="ticket" value="{escape(made.ticket)}"><button>Open</button></form>'
        )
        response = page(request, "Open a session", body, form_target=origin_of(made.url))
        # The sessions' origin must see from which origin the form comes.
        headers: dict[str, str] = {**request.get(EXTRA_HEADERS, {}), "Referrer-Policy": "strict-origin"}
        request[EXTRA_HEADERS] = headers
        return response

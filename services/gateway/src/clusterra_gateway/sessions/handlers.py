"""The handlers of interactive sessions on the API's origin."""

import re
from dataclasses import dataclass
from html import escape

from aiohttp import web
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.streams.heartbeats import last_heartbeat
from clusterra_templates.definitions import Interactive, OwnInteractive
from clusterra_templates.rendering import Wanted

from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.bus.event_feed import EventFeed
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import EXTRA_HEADERS, json_response, no_content, page
from clusterra_gateway.http.answers.sse import at_position
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import JOB_ID, body, job_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY, REPLAYED, idempotency_key
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, CLUSTER_ID, Needs, cluster_routes
from clusterra_gateway.program_sign_in.oauth_routes import page_routes
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.session_jobs import (
    EntryTicket,
    NewSession,
    SessionDetail,
    SessionJobs,
    SessionList,
    StartedSession,
)
from clusterra_gateway.settings import origin_of
from clusterra_gateway.submission.models import JobToSubmit
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.launches import ENVIRONMENT, Launches, job_of, job_run_id

MAX_LISTED = 100

_WHOLE_NODE = re.compile(r"^#SBATCH\s(?:.*\s)?--exclusive\s*$", re.MULTILINE)

SESSIONS = f"{CLUSTER}/sessions"
SESSION = f"{SESSIONS}/{{job_id}}"
api = cluster_routes(JOB_ID, reads=Needs("jobs:read"), changes=Needs("jobs:write", "member"))


@dataclass(frozen=True)
class Sessions:
    """The handlers of sessions on the API's origin."""

    launches: Launches
    desk: SubmitDesk
    records: SessionRecords
    jobs: SessionJobs
    entrance: Entrance
    slurm: SlurmRequests
    client: Client
    feed: EventFeed

    @api.post(
        "sessions_start",
        SESSIONS,
        status=201,
        names=(Named(SESSION, "/job_id"),),
        parameters=(IDEMPOTENCY_KEY,),
        body=NewSession,
        result=StartedSession,
    )
    async def start(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Starts a session: submits the job of an interactive template as the caller.

        An Idempotency-Key and quotas count as for any submit. The session is `ready` once its job runs and its server
        takes connections.
        """
        wanted = await body(request, NewSession)
        key = idempotency_key(request)
        run_id = job_run_id(ref, caller.member.id, key)
        values = Wanted(wanted.params, wanted.inputs, wanted.sbatch_override)
        prepared = await self.launches.prepare(ref, caller.slurm_user.name, wanted.template_id, values, run_id)
        definition = prepared.found.definition
        if not isinstance(definition, Interactive | OwnInteractive):
            raise InvalidRequest(
                f"{wanted.template_id} is no interactive template",
                hint="GET /v1/launchables?kind=interactive lists those; submit others as jobs",
            )
        environment, kid = self.entrance.environment(ref, run_id)
        step = prepared.steps[0]
        shared = await self._shared(ref, step.rendered.script)
        job = JobToSubmit(environment=(*ENVIRONMENT, *environment), shared=shared)
        submission = job_of(step, job, wanted.confirmed_usd_per_hour)
        submitted = await self.desk.submit(caller, ref, submission, key, wanted.digest())
        record = SessionRecord(
            job_id=submitted.job_id,
            member=caller.member.id,
            template_id=definition.id,
            name=definition.name,
            run_id=run_id,
            kid=kid,
            idle_cull_min=definition.routing.idle_cull_min,
            created_at=now(),
        )
        await self.records.create(ref, record)
        started = StartedSession.showing(submitted, template_id=definition.id)
        location = f"/v1/clusters/{ref.cluster}/sessions/{submitted.job_id}"
        headers = {REPLAYED: "true"} if submitted.repeated else {}
        return json_response(started, status=201, location=location, headers=headers)

    async def _shared(self, ref: ClusterRef, script: str) -> tuple[str, ...] | None:
        """With whom the job of a session shares its worker; None: with everybody.

        Only the agent of workers that are processes sees whose server listens on a port. On others another user's
        process could take the port of the session and receive its token, so no other user has a job there.
        """
        try:
            heard = await last_heartbeat(self.client, ref)
        except (BusUnavailable, InvalidMessage):
            heard = None
        if heard is not None and heard[0].substrate == "process":
            return None
        return ("none",) if _WHOLE_NODE.search(script) else ("user",)

    @api.get("sessions_list", SESSIONS, names=(Named(SESSION, "/sessions/0/job_id"),), result=SessionList)
    async def list(self, _request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists the caller's sessions that have not ended, the newest first. An admin sees no other's either.

        `Event-Position` is the Last-Event-ID with which the stream of events tells everything after this list.
        """
        position = self.feed.position
        views = await self.jobs.all(ref, caller.member.id, caller.slurm_user, MAX_LISTED)
        shown = tuple(each.shown() for each in views if each.state != "ended")
        return json_response(SessionList(sessions=shown, total=len(shown)), headers=at_position(position))

    @api.get("sessions_get", SESSION, result=SessionDetail)
    async def get(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns one of the caller's sessions."""
        view = await self.jobs.find(ref, caller.member.id, caller.slurm_user, job_id(request))
        return json_response(view.shown())

    @api.delete("sessions_end", SESSION)
    async def end(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Ends one of the caller's sessions: cancels its job."""
        view = await self.jobs.find(ref, caller.member.id, caller.slurm_user, job_id(request))
        if view.state != "ended":
            await self.slurm.cancel(ref, caller.viewer, view.record.job_id)
        return no_content()

    @api.post("sessions_ticket", f"{SESSION}/ticket", status=201, result=EntryTicket)
    async def ticket(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes a ticket for a session, with which a browser enters its page once and within a minute.

        A form with the field `ticket` is posted to `url`. `GET .../open` is a page with such a form.
        """
        view = await self.jobs.find(ref, caller.member.id, caller.slurm_user, job_id(request))
        return json_response(await self.entrance.ticket(caller, ref, view), status=201)


of_browser = page_routes(SESSIONS, CLUSTER_ID, JOB_ID)


class OpeningPage:
    """The page with the form that takes a ticket to the sessions' origin."""

    def __init__(self, access: Access, jobs: SessionJobs, entrance: Entrance) -> None:
        self._access = access
        self._jobs = jobs
        self._entrance = entrance

    @of_browser.get("sessions_open", f"{SESSION}/open", result="text/html")
    async def show(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Shows a button that opens one of the caller's sessions in this browser. 409 for a session that has ended."""
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

"""The routes of interactive sessions on the API's origin."""

from typing import Any

from clusterra_gateway.http.parameters import JOB_ID
from clusterra_gateway.http.route import Named, Route
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.private_route import CLUSTER, CLUSTER_ID, ClusterRoute
from clusterra_gateway.program_sign_in.oauth_routes import PageRoute
from clusterra_gateway.sessions.handlers import Sessions
from clusterra_gateway.sessions.models import EntryTicket, NewSession, SessionDetail, SessionList, StartedSession
from clusterra_gateway.sessions.opening_page import OpeningPage

SESSIONS = f"{CLUSTER}/sessions"
SESSION = f"{SESSIONS}/{{job_id}}"


def routes(access: Access, sessions: Sessions, opening: OpeningPage) -> tuple[Route, ...]:
    """All routes of this room."""
    read: dict[str, Any] = {"access": access, "scope": "jobs:read"}
    write: dict[str, Any] = {"access": access, "scope": "jobs:write", "role": "member"}
    of_session = (CLUSTER_ID, JOB_ID)
    return (
        ClusterRoute(
            "sessions_start",
            "POST",
            SESSIONS,
            sessions.start,
            **write,
            status=201,
            names=(Named(SESSION, "/job_id"),),
            parameters=(CLUSTER_ID, IDEMPOTENCY_KEY),
            body=NewSession,
            result=StartedSession,
        ),
        ClusterRoute(
            "sessions_list",
            "GET",
            SESSIONS,
            sessions.list,
            **read,
            names=(Named(SESSION, "/sessions/0/job_id"),),
            parameters=(CLUSTER_ID,),
            result=SessionList,
        ),
        ClusterRoute("sessions_get", "GET", SESSION, sessions.get, **read, parameters=of_session, result=SessionDetail),
        ClusterRoute("sessions_end", "DELETE", SESSION, sessions.end, **write, status=204, parameters=of_session),
        PageRoute(
            "sessions_open",
            "GET",
            f"{SESSION}/open",
            opening.show,
            access=access,
            page=SESSIONS,
            parameters=of_session,
            result="text/html",
        ),
        ClusterRoute(
            "sessions_ticket",
            "POST",
            f"{SESSION}/ticket",
            sessions.ticket,
            **write,
            status=201,
            parameters=of_session,
            result=EntryTicket,
        ),
    )

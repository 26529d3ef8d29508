"""What sessions need from the installation: their origin and its paths, their servers' tokens, and tickets."""

from typing import NamedTuple

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.accounts.session_records import SessionRecord
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions.page_credentials import Ticket, Tickets, valid_until
from clusterra_gateway.sessions.session_jobs import EntryTicket, SessionView

log = structlog.get_logger()

ROOT = "/sessions"
ENTRY = f"{ROOT}/enter"
"""Where a ticket is redeemed."""
TOKEN = "session"  # noqa: S105 - the purpose of a derived token


def page_path(cluster: str, job_id: str = "") -> str:
    """The path below which a session is served; without a job, that of a cluster's sessions."""
    return f"{ROOT}/{cluster}/{job_id}" if job_id else f"{ROOT}/{cluster}"


class ServerToken(NamedTuple):
    """The token that a session's server demands, and the cookie in which it wants it besides `Authorization`."""

    token: str
    cookie: str | None = None


class Entrance:
    """What sessions need from the installation: an origin, tokens, tickets."""

    def __init__(self, sessions_url: str | None, keys: SigningKeys, registry: Registry, tickets: Tickets) -> None:
        self._url = None if sessions_url is None else sessions_url.rstrip("/")
        self._keys = keys
        self._registry = registry
        self._tickets = tickets

    def environment(self, ref: ClusterRef, run_id: str) -> tuple[tuple[str, ...], str]:
        """The variables of a session's job, and the id of the key that its token follows from. Raises NotFound."""
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        token, kid = self._keys.derive(TOKEN, f"{ref.key}#{run_id}")
        variables = {
            "CLUSTERRA_SESSION_TOKEN": token,
            "CLUSTERRA_SESSION_DIR": binding.shared_path,
            "CLUSTERRA_SESSION_PREFIX": page_path(ref.cluster),
        }
        return tuple(f"{name}={value}" for name, value in variables.items()), kid

    def token(self, ref: ClusterRef, record: SessionRecord) -> str:
        """The token that the session's server demands. Raises Unauthenticated when its key was removed."""
        return self._keys.derive(TOKEN, f"{ref.key}#{record.run_id}", record.kid)[0]

    async def ticket(self, caller: Caller, ref: ClusterRef, view: SessionView) -> EntryTicket:
        """A ticket for a session of the caller's.

        Raises Conflict for a session that has ended, and where the installation serves no sessions.
        """
        if view.state == "ended":
            raise Conflict(f"this session has ended: {view.detail}", hint="start a new one")
        if self._url is None:
            raise Conflict("this installation serves no pages of sessions", hint="an operator sets their address")
        until = valid_until()
        ticket = Ticket(
            tenant=ref.tenant,
            cluster=ref.cluster,
            job_id=view.record.job_id,
            member=caller.member.id,
            sign_in=caller.credential_id,
            by_token=caller.credential == "token",
            until=caller.expires_at,
            valid_until=until,
        )
        made = await self._tickets.make(ticket)
        log.info("session_ticket_made", job=view.record.job_id)
        return EntryTicket(url=f"{self._url}{ENTRY}", ticket=made, valid_until=until)

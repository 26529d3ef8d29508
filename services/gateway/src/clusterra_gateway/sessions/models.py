"""Interactive sessions as the API takes and shows them."""

import hashlib
from typing import Literal

from clusterra_contracts.identity import JobId, Moment

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.money.quotas.admission import QuotaLeft
from clusterra_gateway.submission.models import TemplateValues

SessionState = Literal["pending", "starting", "ready", "ended"]
"""`pending`: its job waits. `starting`: its job runs, and its server takes no connections yet."""


class NewSession(TemplateValues):
    """A session to start: an interactive template, and the values for it."""

    def digest(self) -> str:
        """Identifies the request among those with one Idempotency-Key."""
        return hashlib.sha256(f"session\n{self.model_dump_json()}".encode()).hexdigest()


class StartedSession(ResponseBody):
    """A session that was submitted: the job with this id."""

    job_id: JobId
    template_id: str
    repeated: bool
    warnings: tuple[str, ...]
    quotas: tuple[QuotaLeft, ...] = ()


class SessionDetail(ResponseBody):
    """A session. It is its owner's alone: nobody else sees it, whatever their role."""

    job_id: JobId
    template_id: str
    name: str
    state: SessionState
    detail: str
    """What it waits for, or how its job ended; empty while it is ready."""
    created_at: Moment
    idle_cull_min: int | None
    """After how many minutes without use its job is cancelled; null: never."""


class SessionList(ResponseBody):
    """The caller's sessions that have not ended."""

    sessions: tuple[SessionDetail, ...]
    total: int


class EntryTicket(ResponseBody):
    """The way into a session: a form with the field `ticket`, posted to `url` once and within a minute."""

    url: str
    """An address on the sessions' origin. Browsers may post to it from the API's origin and from consoles only."""
    ticket: str
    valid_until: Moment

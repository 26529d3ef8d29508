"""What commands do with the spool: keep a submit and deliver what waits."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

from clusterra.credentials import checked_token
from clusterra.errors import ClusterraError
from clusterra.http.sync_transport import SyncTransport
from clusterra.target import Target

from clusterra_cli.spool.delivery import Delivery, Outcome
from clusterra_cli.spool.folder import Entry, Spool, SpoolError
from clusterra_cli.spool.record import SpooledSubmit, token_mark

DELIVERY_SECONDS = 20.0
"""For how long a spooled submit delivers what was spooled before it."""
PIGGYBACK_SECONDS = 5.0
"""For how long a submit that is not spooled itself delivers what was spooled before it."""


def keep(spool: Spool, target: Target, body: Mapping[str, Any]) -> Entry:
    """Write a submit into the spool, for the person whose token is used now. Raises SpoolError, CredentialsError."""
    token = checked_token(target.credentials.token() or "")
    mark = token_mark(token, spool.secret)
    submit = SpooledSubmit(uuid.uuid4().hex, target.url, body, time.time(), mark, cluster=target.cluster)
    return spool.add(submit)


def deliver(spool: Spool, target: Target, transport: SyncTransport, entry: Entry) -> Outcome:
    """Deliver what waits, with this submit, and return what became of it. Raises ClusterraError; the submit stays."""
    found: Outcome | None = None
    with spool.locked("send"):
        for outcome in Delivery(spool, target, transport).run(within_seconds=DELIVERY_SECONDS):
            found = outcome if outcome.entry.key == entry.key else found
    # Another process may have delivered it meanwhile.
    return found or outcome_of(spool, entry)


def outcome_of(spool: Spool, entry: Entry) -> Outcome:
    """What became of a submit that another process delivered."""
    for each in spool.entries("sent", "refused"):
        if each.key == entry.key:
            submit = spool.read(each)
            return Outcome(each, "sent" if submit.job_id else "refused", submit.job_id, submit.why)
    return Outcome(entry, "waits", why="other submits are delivered first")


def deliver_beside(spool: Spool, target: Target, transport: SyncTransport) -> tuple[Outcome, ...]:
    """Deliver what waits, for some seconds, before a submit that needs no spool and that no failure here stops."""
    outcomes: list[Outcome] = []
    try:
        if not spool.exists or not spool.entries("waiting"):
            return ()
        with spool.locked("send", seconds=0.0):
            outcomes.extend(Delivery(spool, target, transport).run(within_seconds=PIGGYBACK_SECONDS))
    except (ClusterraError, SpoolError):
        pass
    return tuple(outcomes)

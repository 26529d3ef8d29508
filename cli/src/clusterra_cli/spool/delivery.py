"""Delivers the submits of the spool in their order, each with its Idempotency-Key: however often, it makes one job.

The gateway forgets a key a day after its last request. So a submit whose first delivery is nearly so long ago, and
whose outcome nobody knows, is not sent again by itself: its owner decides.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from clusterra.errors import (
    ApiError,
    ClusterraError,
    NotClusterra,
    OutcomeUnknown,
    SignInNeeded,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from clusterra.exchange import Failure, Request, send
from clusterra.http.retrying import ask, failed
from clusterra.http.sync_transport import SyncTransport
from clusterra.target import Target

from clusterra_cli.spool.folder import Entry, Spool, SpoolError
from clusterra_cli.spool.record import BadRecord, SpooledSubmit, token_mark

HOUR = 3600.0
KEY_SECONDS = 20 * HOUR
"""For how long after the first delivery a key is used. The gateway keeps it for 24 hours."""
CLOCK_SECONDS = 300.0
"""A first delivery that is so far in the future shows that the clock was set back."""
MAX_AGE_SECONDS = 30 * 24 * HOUR
ANSWER_SECONDS = 30.0
"""For how long `clusterra spool send` waits for one answer."""
REACH_SECONDS = 3.0
"""For how long the gateway is looked for."""
MAX_CONSECUTIVE_UNAVAILABLE = 3
"""After this many consecutive answers of this kind, delivery stops until the next run."""
_JOB_ID = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one submit. `error` is what the gateway answered to a refused one."""

    entry: Entry
    kind: Literal["sent", "refused", "bad", "waits"]
    job_id: str | None = None
    why: str | None = None
    error: ClusterraError | None = None


class Delivery:
    """Delivers to one gateway, as one person."""

    def __init__(
        self, spool: Spool, target: Target, transport: SyncTransport, clock: Callable[[], float] = time.time
    ) -> None:
        self._spool = spool
        self._target = target
        self._transport = transport
        self._clock = clock

    def run(self, *, mine: bool = False, within_seconds: float | None = None) -> Iterator[Outcome]:
        """Deliver all that waits, also what is added meanwhile. Call it with the lock `send`.

        `mine`: also what was spooled with another token and was never sent: the caller says that it is theirs.
        `within_seconds`: after this time nothing further is begun. Raises what the SDK raises where the gateway cannot
        be reached and where the sign-in has ended, and SpoolError.
        """
        began, tried, away = time.monotonic(), set[str](), 0
        member = ""
        while new := [each for each in self._spool.entries("waiting") if each.key not in tried]:
            for entry in new:
                if within_seconds is not None and time.monotonic() - began > within_seconds:
                    return
                tried.add(entry.key)
                member = member or self._member()
                try:
                    outcome = self._one(entry, member, mine=mine)
                except FileNotFoundError:
                    continue
                yield outcome
                away = away + 1 if isinstance(outcome.error, Unavailable) else 0
                if away == MAX_CONSECUTIVE_UNAVAILABLE:
                    return

    def _one(self, entry: Entry, member: str, *, mine: bool) -> Outcome:
        try:
            submit = self._spool.read(entry)
        except BadRecord as error:
            self._spool.set_aside(entry)
            return Outcome(entry, "bad", why=str(error))
        except SpoolError as error:
            return Outcome(entry, "waits", why=str(error))
        if (why := self._must_wait(submit, member, mine=mine)) is not None:
            return Outcome(entry, "waits", why=why)
        if (why := self._too_old(submit)) is not None:
            return self._refused(entry, submit, why)
        first = self._clock() if submit.first_sent_at is None else submit.first_sent_at
        cluster = submit.cluster or self._only_cluster()
        if cluster is None:
            return self._refused(entry, submit, "you have several clusters, or none: submit it again and name one")
        known = replace(submit, member=member, cluster=cluster, first_sent_at=first)
        if known != submit:
            self._spool.change(entry, known)
        return self._sent(entry, known)

    def _must_wait(self, submit: SpooledSubmit, member: str, *, mine: bool) -> str | None:
        """Why a submit is not this person's to send now; None where it is."""
        if submit.url != self._target.url:
            return f"it is for the gateway {submit.url}"
        if submit.member is not None:
            return None if submit.member == member else "it belongs to another person"
        token = self._target.credentials.token() or ""
        if mine or token_mark(token, self._spool.secret) == submit.token_mark:
            return None
        return "it was spooled with another sign-in: `clusterra spool send --mine` sends it as you"

    def _too_old(self, submit: SpooledSubmit) -> str | None:
        now = self._clock()
        if submit.first_sent_at is not None and not -CLOCK_SECONDS < now - submit.first_sent_at < KEY_SECONDS:
            return f"an earlier delivery may have made its job: look for {submit.key} in the comments of your jobs"
        if now - submit.spooled_at > MAX_AGE_SECONDS:
            return "it waited for more than 30 days"
        return None

    def _sent(self, entry: Entry, submit: SpooledSubmit) -> Outcome:
        """Send it once. Without a final answer it stays."""
        request = Request(
            "POST", f"/v1/clusters/{submit.cluster}/jobs/submit", body=submit.body, idempotency_key=submit.key
        )
        reply = self._transport.run(send(request))
        if isinstance(reply, Failure):
            raise failed(self._target.url, reply)
        if reply.status >= 300:
            return self._unsent(entry, submit, failed(self._target.url, reply))
        try:
            job_id = str(reply.json["job_id"])
        except (ValueError, KeyError, TypeError):
            job_id = ""
        if not _JOB_ID.fullmatch(job_id):
            return Outcome(entry, "waits", why="the answer has no job", error=NotClusterra(submit.url, 0, reply.body))
        self._spool.sent(entry, submit, job_id)
        return Outcome(entry, "sent", job_id)

    def _unsent(self, entry: Entry, submit: SpooledSubmit, error: ClusterraError) -> Outcome:
        if isinstance(error, SignInNeeded | TooManyRequests):
            raise error
        problem = error.type.rpartition("/")[2] if isinstance(error, ApiError) else ""
        final = isinstance(error, ApiError) and (error.status < 500 or problem == "bad-upstream")
        if not final or problem == "in-flight":
            return Outcome(entry, "waits", why=_line(error), error=error)
        return self._refused(entry, submit, _line(error), error)

    def _refused(self, entry: Entry, submit: SpooledSubmit, why: str, error: ClusterraError | None = None) -> Outcome:
        self._spool.refuse(entry, submit, why)
        return Outcome(entry, "refused", why=why, error=error)

    def _member(self) -> str:
        """The id of the caller at the gateway. Raises what the SDK raises."""
        request = Request("GET", "/v1/users/me", deadline_seconds=REACH_SECONDS)
        answer = self._transport.run(ask(request, self._target.url))
        try:
            return str(answer.json["id"])
        except (ValueError, KeyError, TypeError):
            raise NotClusterra(self._target.url, answer.status, answer.body) from None

    def _only_cluster(self) -> str | None:
        answer = self._transport.run(ask(Request("GET", "/v1/clusters"), self._target.url))
        try:
            known = [str(each["id"]) for each in answer.json["clusters"]]
        except (ValueError, KeyError, TypeError):
            raise NotClusterra(self._target.url, answer.status, answer.body) from None
        return known[0] if len(known) == 1 else None


def is_away(error: ClusterraError) -> bool:
    """Whether an error means that there is no network, or no gateway, now: a submit waits for it."""
    return isinstance(error, Unreachable | NotClusterra | Unavailable | OutcomeUnknown | TooManyRequests)


def _line(error: ClusterraError) -> str:
    return str(error).replace("\n", ": ")

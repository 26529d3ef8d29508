"""How far the delivery to one webhook has come, and what comes next after each attempt. Pure.

Events are delivered in the order of the stream. One that fails is tried again, later each time, and the others wait
behind it. After `GIVE_UP_AFTER` it is given up and the next one follows. A webhook is disabled when no attempt has
succeeded for `DISABLE_AFTER`, or after the answer 410 Gone.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from clusterra_contracts.identity import Moment
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import DeliverFrom
from clusterra_runtime.backoff import Backoff
from clusterra_runtime.nats.direct import StreamEnd
from pydantic import Field

from clusterra_events.webhooks.digests import CLOCK_SKEW, Digests
from clusterra_events.webhooks.records import Record

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 3600.0
GIVE_UP_AFTER = timedelta(days=1)
DISABLE_AFTER = timedelta(days=5)
GONE = 410
DIGEST = 0
"""Stands for the sequence of a digest."""
_DOUBLINGS = 10
"""After so many, the pause is the longest one."""

type Outcome = Literal["delivered", "retry", "given up", "disabled"]


class Failing(Record):
    """The event whose attempts have failed so far. It is tried again next."""

    sequence: int
    """That of the event; `DIGEST` for a digest, which is in no stream."""
    attempts: Annotated[int, Field(ge=1)]
    first_at: Moment
    url_digest: str = ""
    """A digest of the URL of the last attempt: another one is tried at once."""


class Progress(Record):
    """How far the delivery has come: the state of one webhook.

    `sequence` counts in the stream that was made at `stream_created`, and for the `deliver_from` with this id.
    """

    deliver_from_id: str
    deliver_from_time: Moment
    stream_created: Moment | None = None
    sequence: Annotated[int, Field(ge=0)] = 0
    """That of the last event that was delivered, skipped or given up; 0 before the first one."""
    handled_until: Moment | None = None
    """When the stream stored that event, by the clock of the server."""
    logged: Annotated[int, Field(ge=0)] = 0
    """How many events were delivered or tried: the number of the next entry of the delivery log."""
    failing: Failing | None = None
    failing_since: Moment | None = None
    """When the first failed attempt since the last success was made."""
    next_attempt_at: Moment | None = None
    disabled_reason: str = ""
    """Why the webhook is disabled; empty while it is not."""
    digests: Annotated[Digests, Field(exclude_if=lambda each: each == Digests())] = Digests()
    """The events of tasks of arrays that are told together. A `deliver_from` begins without any."""

    @property
    def since(self) -> datetime | None:
        """The time of storing from which the stream is read while no sequence of it is known; None when one is."""
        if self.sequence:
            return None
        if self.handled_until is None:
            return self.deliver_from_time
        return self.handled_until + timedelta(microseconds=1)

    def is_due(self, at: datetime, url_digest: str) -> bool:
        """Whether something may be sent at a time, to the URL with this digest."""
        if self.disabled_reason:
            return False
        if self.next_attempt_at is None:
            return True
        moved = self.failing is not None and self.failing.url_digest != url_digest
        return moved or is_over(self.next_attempt_at, at)

    def fits(self, stream: StreamEnd) -> bool:
        """Whether the sequence is one of this stream: the stream was not created anew, and has not lost its end."""
        return not self.sequence or (self.stream_created == stream.created and self.sequence <= stream.sequence)

    def anew(self) -> "Progress":
        """The progress in a stream that was created anew: delivery continues by the time of the last event."""
        return self._without_failing().model_copy(update={"stream_created": None, "sequence": 0})

    def at(self, sequence: int) -> "Progress":
        """The progress when this event is next: a failing one before it is gone from the stream and is left behind."""
        return self if self.failing is None or self.failing.sequence == sequence else self._without_failing()

    def skipped(self, sequence: int, stored_at: datetime | None, stream: StreamEnd) -> "Progress":
        """After an event that does not concern the webhook, or that is given up."""
        update = {"sequence": sequence, "handled_until": stored_at or self.handled_until}
        return self._without_failing().model_copy(update={**update, "stream_created": stream.created})

    def succeeded(self, sequence: int, stored_at: datetime | None, stream: StreamEnd) -> "Progress":
        """After an event that was delivered."""
        update = {"logged": self.logged + 1, "failing_since": None, "next_attempt_at": None}
        return self.skipped(sequence, stored_at, stream).model_copy(update=update)

    def digest_delivered(self) -> "Progress":
        """After the sealed digest was delivered. No event of the stream is passed by it."""
        update = {"logged": self.logged + 1, "failing_since": None, "next_attempt_at": None}
        return self.digest_given_up().model_copy(update=update)

    def digest_given_up(self) -> "Progress":
        """After the sealed digest was given up."""
        return self._without_failing().model_copy(update={"digests": self.digests.told()})

    def sealing(self, at: datetime, *, all_at_once: bool) -> "Progress":
        """With the next digest that is due sealed. None is, while an event fails: the digests wait behind it."""
        if self.failing is not None:
            return self
        return self.with_digests(self.digests.sealing(at, all_at_once=all_at_once))

    def with_digests(self, digests: Digests) -> "Progress":
        """With other counts."""
        return self if digests is self.digests else self.model_copy(update={"digests": digests})

    def at_end(self) -> "Progress":
        """At the end of the stream: an event that fails, and is not there, is gone from it."""
        return self if self.digests.sealed is not None else self._without_failing()

    def _without_failing(self) -> "Progress":
        """Leaves the failing event behind. Its entry stays in the delivery log."""
        if self.failing is None:
            return self
        return self.model_copy(update={"failing": None, "next_attempt_at": None, "logged": self.logged + 1})


def progress_of(found: Progress | None, deliver_from: DeliverFrom) -> Progress:
    """The progress for a `deliver_from`: what was found, or the beginning. The delivery log goes on in both cases."""
    if found is not None and found.deliver_from_id == deliver_from.id:
        return found
    logged = 0 if found is None else found.logged + (found.failing is not None)
    return Progress(deliver_from_id=deliver_from.id, deliver_from_time=deliver_from.time, logged=logged)


def attempts_of(progress: Progress, sequence: int, at: datetime, url_digest: str) -> Failing:
    """The attempts of an event, with one more that begins at a time, to the URL with this digest."""
    known = progress.failing
    if known is None or known.sequence != sequence:
        return Failing(sequence=sequence, attempts=1, first_at=at, url_digest=url_digest)
    return known.model_copy(update={"attempts": known.attempts + 1, "url_digest": url_digest})


def is_over(pause_until: datetime, at: datetime) -> bool:
    """Whether a pause is over. One that is longer than any is of a clock that went ahead, and is over, too."""
    return not at < pause_until <= at + timedelta(seconds=LONGEST_PAUSE_SECONDS) + CLOCK_SKEW


def pause_seconds(attempts: int) -> float:
    """How long to wait after so many failed attempts of an event: 5 s, doubled each time up to an hour, with jitter."""
    first = min(FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, _DOUBLINGS), LONGEST_PAUSE_SECONDS)
    return Backoff(first, LONGEST_PAUSE_SECONDS).next_seconds()


def after_failure(
    progress: Progress, failing: Failing, attempt: Attempt, at: datetime, pause: float, *, may_disable: bool = True
) -> tuple[Progress, Outcome]:
    """The progress after a failed attempt that ended at a time. `pause` is the time until the next one, in seconds.

    An event that is given up is then left behind, by `skipped`. Without `may_disable`, failures disable nothing.
    """
    since = progress.failing_since or failing.first_at
    update = {"failing": failing, "failing_since": since, "next_attempt_at": at + timedelta(seconds=pause)}
    tried = progress.model_copy(update=update)
    stopped = {"next_attempt_at": None}
    if may_disable and attempt.status == GONE:
        return tried.model_copy(update={**stopped, "disabled_reason": "the receiver answered 410 Gone"}), "disabled"
    if may_disable and at - since >= DISABLE_AFTER:
        reason = f"no delivery has succeeded for {DISABLE_AFTER.days} days"
        return tried.model_copy(update={**stopped, "disabled_reason": reason}), "disabled"
    if at - failing.first_at >= GIVE_UP_AFTER:
        return tried.model_copy(update=stopped), "given up"
    return tried, "retry"

"""Sends the mails about one event: to its owner, or to the admins who chose it.

Several people get a mail about one event only where it is about a whole workspace. Who has got it is remembered, so
that a retry for one does not mail the others again. That memory ends with the process; the `Message-ID` is the same.
"""

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import structlog
from clusterra_contracts.events import BudgetFact, Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.mails import Recipient
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.rpc import RpcFailed
from prometheus_client import Counter

from clusterra_events.mails.hourly_bound import HourlyBound
from clusterra_events.mails.recipients import RecipientReads
from clusterra_events.mails.smtp import HandedOver, SmtpSubmission
from clusterra_events.mails.text import body_of, subject_of
from clusterra_events.mails.wanted import audience_of, is_wanted

TOLD_FOR = timedelta(days=1)
"""A mail about something older helps nobody, such as after mails were off for long."""
RECIPIENT_SECONDS = 900.0
"""How long mails are tried again whose recipient alone is refused for now. The mails of others wait behind them."""
REFUSED_SECONDS = 6 * 3600.0
"""So long after its first refusal, a recipient is tried for `RECIPIENT_SECONDS` again."""
MOST_REMEMBERED = 10_000
_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\\\"\x00-\x1f\x7f]{1,64}@[^\s@<>()\[\],;:\\\"\x00-\x1f\x7f]{1,255}")
"""An address that needs no quotes. Others get no mails."""
_LAST = (
    "You have got {most} mails within an hour, the most there are. What happens until the hour ends is in the console"
    " only."
)

MAILS = Counter("clusterra_mails_total", "Mails, by what became of them", ("outcome",))
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MailForm:
    """What all mails have in common."""

    sender: Address
    public_url: str = ""
    """The console's address for links; empty: mails have none."""
    per_hour: int = 30
    """The most mails to a person in an hour."""


class MailSender:
    """Sends mails as the delivery of events asks for them."""

    def __init__(
        self,
        submission: SmtpSubmission,
        recipients: RecipientReads,
        form: MailForm,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._submission = submission
        self._recipients = recipients
        self._form = form
        self._clock = clock
        self._bound = HourlyBound[tuple[str, str]](form.per_hour, clock)
        self._done = BoundedCache[str, bool](MOST_REMEMBERED, TOLD_FOR.total_seconds(), clock=clock)
        """The ids of the mails that were sent or given up."""
        self._refused_since = BoundedCache[tuple[str, str] | str, float](MOST_REMEMBERED, REFUSED_SECONDS, clock=clock)
        """Since when the server refuses a mail for now, or what goes to a person."""

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt | None:
        """Send the mails about an event; None where nobody gets one."""
        audience = audience_of(event.data)
        if audience is None or now() - event.time > TOLD_FOR:
            return None
        began = self._clock()
        try:
            people = await self._recipients.of(ref, audience)
        except RpcFailed as failed:
            problem = f"the gateway does not tell who gets mails: {failed.error.kind}"
            return Attempt(delivered=False, seconds=round(self._clock() - began, 3), problem=problem[:200])
        wanted = [each for each in people if is_wanted(event.data, each.choices)]
        if not wanted:
            return None
        outcomes = [await self._to_one(ref, event, each) for each in wanted]
        failed_one = next((each for each in outcomes if each.how == "later"), None)
        return Attempt(
            delivered=failed_one is None,
            status=outcomes[0].code if failed_one is None else failed_one.code,
            seconds=round(self._clock() - began, 3),
            problem="" if failed_one is None else failed_one.problem,
        )

    async def _to_one(self, ref: ClusterRef, event: Event, person: Recipient) -> HandedOver:
        """Send one mail, unless that was done. What is given up counts as done."""
        mail = mail_id(ref, event, person)
        if mail in self._done:
            return HandedOver("accepted")
        key = (ref.tenant, person.member)
        if not (left := self._bound.left(key)):
            return self._settled(mail, HandedOver("refused", None, "too many mails in this hour"), ref, event)
        if not _ADDRESS.fullmatch(person.address):
            return self._settled(mail, HandedOver("refused", None, "the address cannot be used"), ref, event)
        further = _LAST.format(most=self._form.per_hour) if left == 1 else ""
        try:
            message = self._message(ref, event, person, mail, further)
        except (ValueError, MessageError):
            # Such as one with a letter beyond ASCII before its @, or two dots in a row.
            return self._settled(mail, HandedOver("refused", None, "the address cannot be used"), ref, event)
        handed = await self._submission.hand_over(message, self._form.sender.addr_spec, person.address)
        if handed.how == "accepted":
            self._bound.count(key)
        if handed.how != "later":
            self._refused_since.pop(key)
        elif handed.code is not None and self._tried_long_enough(key if handed.recipient else mail):
            handed = HandedOver("refused", handed.code, handed.problem)
        return handed if handed.how == "later" else self._settled(mail, handed, ref, event)

    def _tried_long_enough(self, key: tuple[str, str] | str) -> bool:
        """Whether the server has answered for long that a mail, or what goes to a person, can be sent later.

        That time does not begin anew with each mail to the person: the mails of others wait meanwhile.
        """
        since = self._refused_since.get(key)
        if since is None:
            self._refused_since.put(key, self._clock())
            return False
        return self._clock() - since >= RECIPIENT_SECONDS

    def _settled(self, mail: str, handed: HandedOver, ref: ClusterRef, event: Event) -> HandedOver:
        """Remember that nothing more is done for a mail. The log has no address."""
        self._done.put(mail, True)
        MAILS.labels("sent" if handed.how == "accepted" else "given_up").inc()
        if handed.how != "accepted":
            told = {"tenant": ref.tenant, "cluster": ref.cluster, "event_id": event.id}
            log.warning("mail_given_up", **told, code=handed.code, problem=handed.problem)
        return handed

    def _message(self, ref: ClusterRef, event: Event, person: Recipient, mail: str, further: str) -> EmailMessage:
        message = EmailMessage(policy=SMTP)
        message["From"] = self._form.sender
        message["To"] = Address(addr_spec=person.address)
        message["Subject"] = subject_of(ref, event)
        message["Date"] = format_datetime(now())
        message["Message-ID"] = f"<{mail}@{self._form.sender.domain}>"
        message["Auto-Submitted"] = "auto-generated"
        message["X-Auto-Response-Suppress"] = "All"
        message.set_content(body_of(ref, event, self._form.public_url, further))
        return message


def mail_id(ref: ClusterRef, event: Event, person: Recipient) -> str:
    """The id of the mail about an event to a person, the same in each attempt.

    A threshold of a budget has an event in each cluster of its tenant, which are one mail.
    """
    about = (
        f"{ref.tenant}:{event.id.partition(':')[2]}" if isinstance(event.data, BudgetFact) else f"{ref.key}{event.id}"
    )
    return hashlib.sha256(f"{about}\n{person.member}".encode()).hexdigest()[:40]

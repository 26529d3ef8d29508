"""Sends one event to an incoming webhook of Slack, once, as a message for people.

Slack takes one message a second for each incoming webhook, and says with 429 how long to wait. Until then nothing is
sent to this URL by this process: the attempts meanwhile fail without a request.
"""

import asyncio
import hashlib
import json
import time

from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.rate_limit import RateLimit

from clusterra_events.webhooks.posting.poster import Answer, Poster
from clusterra_events.webhooks.sender import attempt_of
from clusterra_events.webhooks.slack_message import message_of

MESSAGES_PER_SECOND = 1.0
MAX_PAUSE_SECONDS = 3600
MAX_PAUSES = 10_000
"""For how many URLs a pause is remembered."""
KNOWN_ERRORS = {
    "action_prohibited": "an admin of the Slack workspace does not allow it",
    "channel_is_archived": "the channel is archived",
    "channel_not_found": "the channel is gone",
    "invalid_payload": "Slack cannot read the message",
    "invalid_token": "the URL is not valid any more",
    "no_active_hooks": "the incoming webhook is disabled",
    "no_service": "the incoming webhook is gone or disabled",
    "no_service_id": "the URL is not that of an incoming webhook",
    "no_team": "the Slack workspace is gone",
    "posting_to_general_channel_denied": "the app may not post to this channel",
    "rollup_error": "Slack failed",
    "team_disabled": "the Slack workspace is disabled",
    "user_not_found": "the user of the direct message is gone",
}
"""Slack's errors of incoming webhooks. Another text is not shown: whoever answers may have chosen it."""


class SlackSender:
    """Sends messages to incoming webhooks."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster
        self._limit = RateLimit(MESSAGES_PER_SECOND, 1)
        self._paused = BoundedCache[str, float](MAX_PAUSES)
        """Until when nothing is sent to a URL, by its digest and `time.monotonic`."""

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt:
        """Send an event of a cluster once. Whatever goes wrong is in the attempt."""
        began = time.monotonic()
        key = hashlib.sha256(webhook.url.encode()).hexdigest()
        if (until := self._paused.get(key)) is not None:
            problem = f"Slack asked for a pause, which lasts {until - began:.0f} s more"
            return attempt_of(Answer(problem=problem), began)
        taken = self._limit.take(key)
        if not taken.admitted:
            await asyncio.sleep(min(taken.next_seconds, 1 / MESSAGES_PER_SECOND))
            taken = self._limit.take(key)
        if not taken.admitted:
            # Another visit or a test has sent meanwhile.
            return attempt_of(Answer(problem="too many messages for this Slack channel at the moment"), began)
        sent_at = time.monotonic()
        body = json.dumps(message_of(ref, event)).encode()
        answer = await self._poster.post(webhook.url, {"Content-Type": "application/json"}, body)
        if answer.status == 429:
            seconds = pause_of(answer.retry_after)
            self._paused.put(key, time.monotonic() + seconds, seconds=seconds)
        return attempt_of(told(answer), sent_at)


def pause_of(retry_after: str) -> int:
    """The seconds of a `Retry-After`, at most an hour; 1 for one that is not a number of seconds."""
    text = retry_after.strip()
    if not (text.isascii() and text.isdigit()):
        return 1
    return min(max(int(text[:9]), 1), MAX_PAUSE_SECONDS)


def told(answer: Answer) -> Answer:
    """An answer of Slack with what is wrong, in words of ours."""
    if answer.status is None or 200 <= answer.status < 300:
        return answer
    if answer.status == 429:
        problem = f"Slack asks to wait {pause_of(answer.retry_after)} s"
    else:
        word = answer.body.strip().decode("ascii", "replace")
        problem = f"{KNOWN_ERRORS[word]} ({word})" if word in KNOWN_ERRORS else "Slack refused it"
    return Answer(answer.status, answer.body, answer.retry_after, problem)

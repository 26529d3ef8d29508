"""HTTP requests of the doctor: bounded answers, with the time of both ends."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from clusterra_contracts.identity import now

from clusterra_admin.doctor.clocks import ahead_by_date, clock_finding
from clusterra_admin.doctor.finding import Finding, skipped

MAX_BYTES = 4 * 1024 * 1024


class CertificateRejected(Exception):
    """The certificate of the other side is not valid. The check `certificates.expiry` of this address says why."""


class NoAnswer(Exception):
    """There is no answer, or not the one that was asked for. The text says why."""


@dataclass(frozen=True)
class Answer:
    """An answer with the status 200."""

    body: bytes
    date: str | None
    sent_at: datetime
    received_at: datetime

    @property
    def json(self) -> Any:
        """The body as JSON. Raises NoAnswer."""
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            raise NoAnswer("the answer is not JSON") from error

    def clock(self, about: str) -> Finding:
        """The finding about the server's clock."""
        ahead = ahead_by_date(self.date, self.sent_at, self.received_at)
        if ahead is None:
            return skipped("clocks.skew", "the answer has no Date header", about=about)
        return clock_finding(about, ahead)


async def get(http: aiohttp.ClientSession, url: str) -> Answer:
    """Fetch an address. Raises CertificateRejected and NoAnswer; the caller bounds the time."""
    sent_at = now()
    try:
        async with http.get(url) as answer:
            received_at = now()
            if answer.status != 200:
                raise NoAnswer(f"{url} answers {answer.status}")
            body = await answer.content.read(MAX_BYTES)
            return Answer(body, answer.headers.get("Date"), sent_at, received_at)
    except aiohttp.ClientConnectorCertificateError as error:
        raise CertificateRejected(urlsplit(url).netloc) from error
    except aiohttp.ClientError as error:
        raise NoAnswer(f"{url}: {error or type(error).__name__}") from error

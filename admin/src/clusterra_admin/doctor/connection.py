"""The doctor's connection to NATS, which remembers what the server objects to."""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, override

import nats.errors
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings

SERVICE = "doctor"
INBOX_PREFIX = f"_INBOX_{SERVICE}"
MAX_ERRORS = 100
REQUEST_SECONDS = 5.0
_FINAL = ("authorization violation", "authentication", "account", "credentials", "certificate", "revoked", "cannot be")
_DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)

type Answer = Mapping[str, Any]


class NotConnected(Exception):
    """There is no connection. The text is the server's last objection, or that nothing answers."""


class ApiFailed(Exception):
    """JetStream's API did not answer, or answered an error. `code` is the error's code; 0 without an answer."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class DoctorClient(Client):
    """A client that keeps the errors of its connection in place of logging them."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        self._refused = asyncio.Event()

    @override
    async def report(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(text)
        if any(final in text.lower() for final in _FINAL):
            self._refused.set()

    @property
    def denied(self) -> list[tuple[str, str]]:
        """What the server denied: `publish` or `subscription`, and the subject in lower case, as nats-py reports it."""
        found = (_DENIED.search(error) for error in self.errors)
        return sorted({(match[1].lower(), match[2].lower()) for match in found if match})

    @property
    def server_info(self) -> Answer:
        """The server's INFO: its version, limits, cluster."""
        return self._server_info

    @property
    def certificate(self) -> Answer | None:
        """The server's certificate, as Python's `ssl` describes it; None without TLS."""
        writer: Any = getattr(self._transport, "_io_writer", None)
        found: Answer | None = writer.get_extra_info("peercert") if writer is not None else None
        return found

    async def open_within(self, settings: ServiceSettings, seconds: float) -> None:
        """Connect. Gives up when the server refuses the credentials. Raises NotConnected."""
        opening = asyncio.create_task(self.open(settings, SERVICE, INBOX_PREFIX))
        refused = asyncio.create_task(self._refused.wait())
        try:
            await asyncio.wait({opening, refused}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                await opening
                return
        except (nats.errors.Error, OSError) as error:
            raise NotConnected(f"{settings.nats_url}: {error or type(error).__name__}") from error
        finally:
            refused.cancel()
            if not opening.done():
                opening.cancel()
                with suppress(asyncio.CancelledError, nats.errors.Error, OSError):
                    await opening
        last = self.errors[-1] if self.errors else "nothing answers"
        raise NotConnected(f"{settings.nats_url}: {last}")

    async def api(self, subject: str, body: object = None) -> Answer:
        """Send a request to JetStream's API. Raises ApiFailed."""
        data = b"" if body is None else json.dumps(body).encode()
        try:
            async with self.while_connected(REQUEST_SECONDS):
                message = await self.request(f"$JS.API.{subject}", data, timeout=REQUEST_SECONDS)
        except nats.errors.NoRespondersError as error:
            raise ApiFailed("JetStream is not enabled, or it has no leader", 503) from error
        except (nats.errors.Error, TimeoutError) as error:
            raise ApiFailed(f"{subject}: no answer ({error or type(error).__name__})") from error
        answer: dict[str, Any] = json.loads(message.data)
        if problem := answer.get("error"):
            raise ApiFailed(f"{subject}: {problem.get('description')}", int(problem.get("code", 0)))
        return answer

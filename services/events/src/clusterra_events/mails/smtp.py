"""Hands one mail to the SMTP server of the installation. TLS is required unless the operator says otherwise."""

import asyncio
import ssl
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Literal

import aiosmtplib

CONNECTIONS = 4
"""The most connections at a time."""
SMTP_SECONDS = 20.0
"""How long one mail may take, from the start of the connection."""

type Tls = Literal["connect", "starttls", "none"]
"""`connect`: TLS from the beginning. `starttls`: the connection ends unless it is encrypted. `none`: neither."""
type Handed = Literal["accepted", "refused", "later"]
"""`refused`: the server takes no such mail to this person, and asking again is of no use. `later`: it may do so."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Where the server is, and how it is spoken to."""

    host: str
    port: int
    tls: Tls
    user: str | None = None
    password_file: Path | None = field(default=None, repr=False)
    """Read at each connection, so it may be replaced at any time."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What came of handing over a mail."""

    how: Handed
    code: int | None = None
    """The server's code; None without an answer."""
    problem: str = ""
    """What is wrong, in words of ours: the server's own text may repeat the address."""
    recipient: bool = False
    """Whether it is the recipient that the server does not take, whatever the mail says."""


class SmtpSubmission:
    """Submits mails, each over a connection of its own."""

    def __init__(self, server: SmtpServer, *, tls: ssl.SSLContext | None = None, seconds: float = SMTP_SECONDS) -> None:
        """`tls`: whom to trust; None: the authorities that the system trusts."""
        self._server = server
        self._tls = tls
        self._seconds = seconds
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def hand_over(self, message: EmailMessage, sender: str, recipient: str) -> HandedOver:
        """Hand over a mail to one address. It never raises for what the server or the network does."""
        try:
            async with self._turns, asyncio.timeout(self._seconds):
                return await self._hand_over(message, sender, recipient)
        except aiosmtplib.SMTPRecipientsRefused as refused:
            code = refused.recipients[0].code if refused.recipients else None
            return replace(_answered(code, "the server refuses this recipient"), recipient=True)
        except aiosmtplib.SMTPDataError as refused:
            return _answered(refused.code, "the server refuses the mail")
        except aiosmtplib.SMTPNotSupported:
            return HandedOver("refused", None, "the server takes no address like this one")
        except aiosmtplib.SMTPResponseException as refused:
            # At the start, the login or the sender: no mail is possible until the operator has corrected it.
            return HandedOver("later", _code(refused.code), "the server takes no mail from this installation")
        except TimeoutError:
            return HandedOver("later", None, f"no answer within {self._seconds:g} s")
        except (aiosmtplib.SMTPException, OSError, ssl.SSLError):
            return HandedOver("later", None, "no connection to the server, or not one that is encrypted as required")
        except ValueError:
            return HandedOver("refused", None, "the address cannot be used")

    async def _hand_over(self, message: EmailMessage, sender: str, recipient: str) -> HandedOver:
        server = self._server
        password = None
        if server.password_file is not None:
            password = (await asyncio.to_thread(server.password_file.read_text)).strip()
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=sender.rpartition("@")[2],
            timeout=self._seconds,
            use_tls=server.tls == "connect",
            start_tls=server.tls == "starttls",
            tls_context=self._tls,
        )
        async with client:
            if server.user is not None:
                await client.login(server.user, password or "")
            await client.send_message(message, sender=sender, recipients=[recipient])
        return HandedOver("accepted", 250)


def _answered(code: int | None, problem: str) -> HandedOver:
    return HandedOver("refused" if code is not None and code >= 500 else "later", _code(code), problem)


def _code(code: int | None) -> int | None:
    return code if code is not None and 100 <= code <= 999 else None

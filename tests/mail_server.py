"""An SMTP server on loopback that keeps what it is handed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session
from clusterra_lab.machine.process import until

SENDER = "clusterra@clusterra.example"
GUARD_SECONDS = 240.0
OK = "250 OK"


@dataclass
class MailServer:
    port: int = 0
    mails: list[tuple[str, EmailMessage]] = field(default_factory=list)
    """The address in the envelope, and the mail, in the order of their arrival."""
    answers: dict[str, list[str]] = field(default_factory=dict)
    """By address: what its next recipients are answered in place of OK; the last answer stays."""
    data_answer: str = OK
    asked: int = 0
    """How many recipients were named."""

    @property
    def environment(self) -> dict[str, str]:
        """The settings of services that send their mails here."""
        return {
            "CLUSTERRA_SMTP_URL": f"smtp://127.0.0.1:{self.port}",
            "CLUSTERRA_SMTP_ENCRYPTED": "false",
            "CLUSTERRA_MAIL_FROM": SENDER,
        }

    def to(self, address: str) -> list[EmailMessage]:
        return [message for recipient, message in self.mails if recipient == address]

    def subjects(self) -> list[str]:
        return [message["Subject"] for _, message in self.mails]

    async def has(self, count: int) -> None:
        await until(lambda: len(self.mails) >= count, seconds=GUARD_SECONDS, what=f"{count} mails", every=0.1)

    async def handle_RCPT(  # noqa: N802 - the name is aiosmtpd's
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        self.asked += 1
        answers = self.answers.get(address, [OK])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer == OK:
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.data_answer == OK:
            content = envelope.original_content or b""
            message: Any = message_from_bytes(content, policy=default)
            self.mails.extend((each, message) for each in envelope.rcpt_tos)
        return self.data_answer


@asynccontextmanager
async def mail_server(port: int = 0) -> AsyncIterator[MailServer]:
    found = MailServer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(found, hostname="mail.example", enable_SMTPUTF8=True, loop=loop), "127.0.0.1", port
    )
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        await server.wait_closed()

"""Makes the sender of mails from the settings of the operator."""

import ssl
from email.headerregistry import Address
from urllib.parse import unquote, urlsplit

from clusterra_runtime.nats.client import Client

from clusterra_events.mails.recipients import RecipientReads
from clusterra_events.mails.sending import MailForm, MailSender
from clusterra_events.mails.smtp import SmtpServer, SmtpSubmission, Tls
from clusterra_events.settings import SMTP_PORTS, Settings


def mail_sender(settings: Settings, client: Client) -> MailSender | None:
    """The sender of mails; None where mails are off."""
    if settings.smtp_url is None:
        return None
    server = smtp_server(settings, settings.smtp_url)
    tls = None if server.tls == "none" else ssl.create_default_context()
    form = MailForm(Address("Clusterra", addr_spec=settings.mail_from), settings.public_url, settings.mails_per_hour)
    return MailSender(SmtpSubmission(server, tls=tls), RecipientReads(client), form)


def smtp_server(settings: Settings, url: str) -> SmtpServer:
    """The server of a URL that the settings have checked."""
    parts = urlsplit(url)
    tls: Tls = "connect" if parts.scheme == "smtps" else "starttls" if settings.smtp_encrypted else "none"
    return SmtpServer(
        host=parts.hostname or "",
        port=parts.port or SMTP_PORTS[parts.scheme],
        tls=tls,
        user=unquote(parts.username) if parts.username else None,
        password_file=settings.smtp_password_file,
    )

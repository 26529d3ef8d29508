"""The connection to the SMTP server: encrypted unless the operator says otherwise, with a login, and never for long."""

import asyncio
import ssl
from email.message import EmailMessage
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from clusterra_events.mails.smtp import SmtpServer, SmtpSubmission
from clusterra_lab.kube.certificates import Authority
from mail_server import SENDER, MailServer, mail_server

ADA = "ada@acme.example"


def mail() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = SENDER, ADA, "hello"
    message.set_content("hello\n")
    return message


async def test_without_encryption_nothing_is_sent_to_a_server_that_has_none() -> None:
    async with mail_server() as server:
        for tls in ("starttls", "connect"):
            submission = SmtpSubmission(SmtpServer("127.0.0.1", server.port, tls), seconds=5)
            handed = await submission.hand_over(mail(), SENDER, ADA)
            assert (handed.how, handed.code) == ("later", None)
        assert server.asked == 0


async def test_a_server_that_never_answers_takes_a_bounded_time() -> None:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    try:
        submission = SmtpSubmission(SmtpServer("127.0.0.1", server.sockets[0].getsockname()[1], "none"), seconds=0.3)
        handed = await submission.hand_over(mail(), SENDER, ADA)
    finally:
        server.close()
    assert (handed.how, handed.problem) == ("later", "no answer within 0.3 s")


@pytest.mark.parametrize(
    ("answer", "how", "code"),
    [("250 OK", "accepted", 250), ("554 no", "refused", 554), ("451 later", "later", 451)],
)
async def test_the_answer_to_a_mail_decides(answer: str, how: str, code: int) -> None:
    async with mail_server() as server:
        server.data_answer = answer
        handed = await SmtpSubmission(SmtpServer("127.0.0.1", server.port, "none")).hand_over(mail(), SENDER, ADA)
    assert (handed.how, handed.code) == (how, code)
    assert ADA not in handed.problem


async def test_an_address_with_a_command_in_it_is_never_sent() -> None:
    async with mail_server() as server:
        submission = SmtpSubmission(SmtpServer("127.0.0.1", server.port, "none"))
        handed = await submission.hand_over(mail(), SENDER, "ada@acme.example>\r\nRCPT TO:<eve@else.example")
        assert handed.how == "refused"
        assert [to for to, _ in server.mails if "eve" in to] == []


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_login_is_made_over_starttls_to_a_server_of_that_name_only(trusted: bool, tmp_path: Path) -> None:
    authority = Authority.new("mails")
    pair = authority.server("mail", ["127.0.0.1"] if trusted else ["mail.else.example"])
    (tmp_path / "pair.pem").write_text(pair.certificate + pair.key)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(tmp_path / "pair.pem")
    trust = ssl.create_default_context(cadata=authority.certificate)
    (tmp_path / "password").write_text("pass word\n")
    logins = list[tuple[bytes, bytes]]()
    kept = MailServer()

    def check(_server: SMTP, _session: object, _envelope: object, _mechanism: str, data: object) -> AuthResult:
        assert isinstance(data, LoginPassword)
        logins.append((data.login, data.password))
        return AuthResult(success=True)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(
            kept,
            hostname="mail.example",
            tls_context=served,
            require_starttls=True,
            auth_required=True,
            authenticator=check,
            loop=loop,
        ),
        "127.0.0.1",
        0,
    )
    try:
        port = server.sockets[0].getsockname()[1]
        where = SmtpServer("127.0.0.1", port, "starttls", "clusterra", tmp_path / "password")
        handed = await SmtpSubmission(where, tls=trust, seconds=10).hand_over(mail(), SENDER, ADA)
    finally:
        server.close()

    assert handed.how == ("accepted" if trusted else "later")
    assert logins == ([(b"clusterra", b"pass word")] if trusted else [])
    assert len(kept.mails) == (1 if trusted else 0)

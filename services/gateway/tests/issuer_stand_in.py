"""Stands in for an OpenID Connect issuer. It can be made to lie, as no honest issuer would."""

import base64
import hashlib
import json
import secrets
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT_ID = "clusterra"
CLIENT_SECRET = "a secret + of the client"

type Tamper = Callable[[dict[str, Any], dict[str, Any]], None]
"""Changes an id_token's header and claims before they are signed."""


@dataclass
class Login:
    """An authorization code that is not redeemed yet."""

    email: str
    challenge: str
    nonce: str


class IssuerStandIn:
    """`/authorize?...&login_hint=<email>` signs this person in without a question."""

    def __init__(self) -> None:
        self.address = ""
        self.key = _first_key()
        self.published = [self.key]
        self.tamper: Tamper | None = None
        self.secret: OctKey | None = None
        """Signs id_tokens in place of the key."""
        self.email_verified: bool | None = True
        """None leaves the claim out, as Entra ID does."""
        self.email_claim = "email"
        """The claim that has the address."""
        self.email_in_user_info_only = False
        """Leaves the e-mail address out of the id_token."""
        self.user_info_of: str | None = None
        """The address of another person, whose claims UserInfo returns."""
        self.fails = False
        """Answers with 503 where it publishes its discovery document and its keys."""
        self.discovered: dict[str, str] = {}
        """Replaces entries of the discovery document."""
        self.calls: list[str] = []
        self._logins: dict[str, Login] = {}

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{path:.*}.well-known/openid-configuration", self._discovery)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/token", self._token)
        app.router.add_get("/keys", self._keys)
        app.router.add_get("/userinfo", self._user_info)
        return app

    async def _discovery(self, _request: web.Request) -> web.Response:
        self.calls.append("discovery")
        if self.fails:
            raise web.HTTPServiceUnavailable
        document = {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
            "userinfo_endpoint": f"{self.address}/userinfo",
        }
        return web.json_response(document | self.discovered)

    async def _keys(self, _request: web.Request) -> web.Response:
        self.calls.append("keys")
        if self.fails:
            raise web.HTTPServiceUnavailable
        return web.json_response(KeySet(list(self.published)).as_dict(private=False))

    async def _authorize(self, request: web.Request) -> web.Response:
        query = request.query
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self._logins[code] = Login(query["login_hint"], query["code_challenge"], query["nonce"])
        answer = urllib.parse.urlencode({"code": code, "state": query["state"], "session_state": "x"})
        return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{answer}"})

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        user, _, password = (
            base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
        )
        if (user, urllib.parse.unquote(password)) != (CLIENT_ID, CLIENT_SECRET):
            return web.json_response({"error": "invalid_client"}, status=401)
        login = self._logins.pop(str(form["code"]), None)
        challenge = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        if login is None or base64.urlsafe_b64encode(challenge).rstrip(b"=").decode() != login.challenge:
            return web.json_response({"error": "invalid_grant"}, status=400)
        answer = {"access_token": f"for-{login.email}", "token_type": "Bearer", "id_token": self._id_token(login)}
        return web.json_response(answer)

    async def _user_info(self, request: web.Request) -> web.Response:
        self.calls.append("userinfo")
        email = self.user_info_of or request.headers["Authorization"].removeprefix("Bearer for-")
        return web.json_response({"sub": f"sub-of-{email}", **self._address_claims(email)})

    def _address_claims(self, email: str) -> dict[str, Any]:
        verified = {} if self.email_verified is None else {"email_verified": self.email_verified}
        return {self.email_claim: email, **verified}

    def _id_token(self, login: Login) -> str:
        now = int(time.time())
        header: dict[str, Any] = {"alg": "RS256", "kid": self.key.kid}
        claims: dict[str, Any] = {
            "iss": self.address,
            "aud": CLIENT_ID,
            "sub": f"sub-of-{login.email}",
            "iat": now,
            "exp": now + 300,
            "nonce": login.nonce,
            **self._address_claims(login.email),
            "name": login.email.partition("@")[0].title(),
        }
        if self.email_in_user_info_only:
            del claims["email"], claims["email_verified"]
        if self.tamper is not None:
            self.tamper(header, claims)
        if header["alg"] == "none":
            return f"{_part(header)}.{_part(claims)}."
        return jwt.encode(header, claims, self.secret or self.key, algorithms=["RS256", "HS256"])


@cache
def _first_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "first"}, private=True)


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


@asynccontextmanager
async def issuer_stand_in() -> AsyncIterator[IssuerStandIn]:
    """An issuer on a free port."""
    issuer = IssuerStandIn()
    runner = web.AppRunner(issuer.application())
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        issuer.address = f"http://127.0.0.1:{site.port}"
        yield issuer
    finally:
        await runner.cleanup()

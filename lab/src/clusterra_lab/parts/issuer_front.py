"""An OpenID Connect issuer in front of the lab's provider, which behaves as a known one: `python -m … FILE`.

People sign in at the provider behind it, which checks the password, PKCE and that a code is used once. The issuer has
keys, a discovery document and claims of its own. SIGHUP rotates its keys: a new one signs, the oldest one goes.
"""

import asyncio
import base64
import signal
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from clusterra_lab.parts.issuer_behaviour import TENANT_ID, Claims, Front

_TIMEOUT = aiohttp.ClientTimeout(total=10)


class IssuerFront:
    """The handlers of one issuer."""

    def __init__(self, given: Front, http: aiohttp.ClientSession) -> None:
        self._given = given
        self._http = http
        self._keys = [_new_key() for _ in range(given.behaviour.keys)]
        self._secret = given.client_secret_file.read_text().strip()

    def routes(self) -> list[web.RouteDef]:
        """All routes."""
        behaviour = self._given.behaviour
        return [
            web.get(f"{behaviour.configured}/.well-known/openid-configuration", self.discovery),
            web.get(f"{behaviour.endpoints}/keys", self.keys),
            web.get(f"{behaviour.endpoints}/authorize", self.authorize),
            web.get("/callback", self.callback),
            web.post(f"{behaviour.endpoints}/token", self.token),
            web.get(f"{behaviour.endpoints}/userinfo", self.user_info),
        ]

    def rotate(self) -> None:
        """Sign with a new key. The oldest one is no longer published."""
        self._keys = [_new_key(), *self._keys[:-1]]

    async def discovery(self, _request: web.Request) -> web.Response:
        """The discovery document."""
        endpoints = self._given.address + self._given.behaviour.endpoints
        return web.json_response(
            {
                "issuer": self._given.address + self._given.behaviour.published,
                "authorization_endpoint": f"{endpoints}/authorize",
                "token_endpoint": f"{endpoints}/token",
                "jwks_uri": f"{endpoints}/keys",
                "userinfo_endpoint": f"{endpoints}/userinfo",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def keys(self, _request: web.Request) -> web.Response:
        """The public keys."""
        return web.json_response(KeySet(list(self._keys)).as_dict(private=False))

    async def authorize(self, request: web.Request) -> web.Response:
        """Sends the browser to the provider, with the application's state, nonce and PKCE challenge."""
        asked = dict(request.query)
        if (asked.get("client_id"), asked.get("redirect_uri")) != (self._given.client_id, self._given.redirect_uri):
            return web.Response(status=400, text="the client or its redirect_uri is not registered")
        published = await self._published()
        query = urllib.parse.urlencode(asked | {"redirect_uri": self._given.callback})
        raise web.HTTPFound(f"{published['authorization_endpoint']}?{query}")

    async def callback(self, request: web.Request) -> web.Response:
        """Sends the browser back to the application, without the name of the provider behind."""
        answer = {name: value for name, value in request.query.items() if name != "iss"}
        raise web.HTTPFound(f"{self._given.redirect_uri}?{urllib.parse.urlencode(answer)}")

    async def token(self, request: web.Request) -> web.Response:
        """Redeems a code at the provider, and signs an id_token of this issuer's own."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        if not self._knows(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        form = {name: value for name, value in form.items() if not name.startswith("client_")}
        if form.get("redirect_uri") != self._given.redirect_uri:
            return web.json_response({"error": "invalid_grant"}, status=400)
        published = await self._published()
        headers = {"Authorization": aiohttp.encode_basic_auth(self._given.client_id, self._secret)}
        form["redirect_uri"] = self._given.callback
        async with self._http.post(published["token_endpoint"], data=form, headers=headers) as answer:
            tokens: Claims = await answer.json()
            if answer.status != 200:
                return web.json_response(tokens, status=answer.status)
        said = await self._verified(published, tokens["id_token"])
        tokens["id_token"] = self._signed(said)
        return web.json_response(tokens)

    async def user_info(self, request: web.Request) -> web.Response:
        """The provider's UserInfo, as this issuer tells it."""
        published = await self._published()
        headers = {"Authorization": request.headers.get("Authorization", "")}
        async with self._http.get(published["userinfo_endpoint"], headers=headers) as answer:
            told: Claims = await answer.json()
            return web.json_response(_without_none(told | self._given.behaviour.user_info_claims), status=answer.status)

    def _knows(self, request: web.Request, form: dict[str, str]) -> bool:
        scheme, _, basic = request.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            user, _, secret = base64.b64decode(basic).decode().partition(":")
            given = (urllib.parse.unquote(user), urllib.parse.unquote(secret))
        else:
            given = (form.get("client_id", ""), form.get("client_secret", ""))
        return given == (self._given.client_id, self._secret)

    async def _published(self) -> Claims:
        return await self._json(f"{self._given.provider}/.well-known/openid-configuration")

    async def _verified(self, published: Claims, id_token: str) -> Claims:
        keys = KeySet.import_key_set(await self._json(published["jwks_uri"]))  # type: ignore[arg-type]
        decoded = jwt.decode(id_token, keys, algorithms=["RS256"])
        jwt.JWTClaimsRegistry(iss={"value": published["issuer"]}, aud={"value": self._given.client_id}).validate(
            decoded.claims
        )
        return decoded.claims

    def _signed(self, said: Claims) -> str:
        behaviour = self._given.behaviour
        own = behaviour.claims | behaviour.claims_of.get(said["sub"], {})
        values = {"client_id": self._given.client_id, "email": said.get("email", "")}
        claims = _without_none(
            said | {name: value.format(**values) if isinstance(value, str) else value for name, value in own.items()}
        )
        claims["iss"] = (self._given.address + behaviour.published).replace(TENANT_ID, str(claims.get("tid")))
        return jwt.encode({"alg": "RS256", "kid": self._keys[0].kid}, claims, self._keys[0], algorithms=["RS256"])

    async def _json(self, address: str) -> Claims:
        async with self._http.get(address) as answer:
            answer.raise_for_status()
            document: Claims = await answer.json()
            return document


def _new_key() -> RSAKey:
    return RSAKey.generate_key(2048, auto_kid=True, private=True)


def _without_none(claims: Claims) -> Claims:
    return {name: value for name, value in claims.items() if value is not None}


async def _application(given: Front) -> web.Application:
    http = aiohttp.ClientSession(timeout=_TIMEOUT)
    front = IssuerFront(given, http)
    app = web.Application()
    app.add_routes(front.routes())

    async def close(_app: Any) -> None:
        await http.close()

    app.on_cleanup.append(close)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, front.rotate)
    return app


def main() -> None:
    """Serve the issuer that the file describes, until a signal ends it."""
    given = Front.model_validate_json(Path(sys.argv[1]).read_bytes())
    web.run_app(_application(given), host=given.host, port=given.port, print=None)


if __name__ == "__main__":
    main()

"""Signs a program in: by the browser of this machine (PKCE), or by the device flow where there is no browser.

Both return a token and store nothing: `clusterra.credentials.store` does. The gateway's metadata must name the very
address that was given: else a foreign server could have a code of the real gateway redeemed.
"""

import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from clusterra.context import canonical_url
from clusterra.credentials import NoToken
from clusterra.errors import ClusterraError, NotClusterra, media_type
from clusterra.exchange import Answer, Failure, Request
from clusterra.http.endpoint import Endpoint
from clusterra.http.retrying import ask, failed
from clusterra.http.sync_transport import SyncTransport
from clusterra.sign_in.loopback_listener import Listener
from clusterra.sign_in.pkce import new_proof

CLIENT_ID = "clusterra-cli"
METADATA = "/.well-known/oauth-authorization-server"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
BROWSER_SECONDS = 300.0
"""How long the person may take in the browser."""
LONGEST_DEVICE_SECONDS = 1800.0
ANSWER_SECONDS = 30.0
LONGEST_TOKEN_SECONDS = 10 * 366 * 86_400
MAX_TOKEN_CHARACTERS = 4000
_FORM = "application/x-www-form-urlencoded"
_SLOWER_SECONDS = 5.0
_MACHINE = re.compile(r"[^A-Za-z0-9._@:() -]")
_TEXTS = {
    "access_denied": "the person has denied the sign-in, or has too many tokens already",
    "expired_token": "nobody has approved the sign-in in time: begin again",
    "invalid_grant": "the sign-in is no longer valid: begin again",
}


class SignInFailed(ClusterraError):
    """A sign-in ended without a token. `code` is OAuth's, such as `access_denied`, or `timeout`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A token of the person, and until when it is valid."""

    token: str = field(repr=False)
    ends_at: datetime
    scope: str
    """The scopes, with spaces between."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the token is to be."""

    machine: str = ""
    """Its name; without one, the name of this machine."""
    scopes: Sequence[str] = ()
    """Without any, all but the management of members."""
    seconds: int | None = None
    """How long it is valid; without a number, as long as the gateway says."""

    @property
    def form(self) -> dict[str, str]:
        """The fields of a request."""
        machine = _MACHINE.sub("-", self.machine or socket.gethostname())[:64].lstrip("._@:() -")
        given = {"client_id": CLIENT_ID, "machine": machine, "scope": " ".join(self.scopes)}
        given |= {} if self.seconds is None else {"token_seconds": str(self.seconds)}
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class DevicePrompt:
    """What the person needs on another machine. Show the code and the address, so that they compare them."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str
    """The same address with the code in it, for a link or a QR code."""
    expires_in: int
    """Seconds."""


ANYTHING = Wanted()


def loopback(
    url: str,
    open_browser: Callable[[str], object],
    *,
    wanted: Wanted = ANYTHING,
    timeout: float = BROWSER_SECONDS,
) -> SignedIn:
    """Sign in by a browser on this machine. `open_browser` gets the address that it is to open.

    Raises SignInFailed, and the errors of `clusterra.errors`.
    """
    with _Server(url) as server:
        answered, proof, state = server.metadata(), new_proof(), secrets.token_urlsafe(24)
        with Listener(state) as listener:
            asked = {
                **wanted.form,
                "response_type": "code",
                "redirect_uri": listener.redirect_uri,
                "code_challenge": proof.challenge,
                "code_challenge_method": "S256",
                "state": state,
            }
            open_browser(f"{answered['authorization_endpoint']}?{urlencode(asked)}")
            answer = listener.answer(timeout)
        redeemed = {
            "client_id": CLIENT_ID,
            "grant_type": "authorization_code",
            "code": _code_in(answer, answered["issuer"], timeout),
            "redirect_uri": asked["redirect_uri"],
            "code_verifier": proof.verifier,
        }
        return _signed_in(url, server.posted("/v1/auth/token", redeemed))


def _code_in(answer: Mapping[str, str] | None, issuer: str, timeout: float) -> str:
    """The code that the browser brought. Raises SignInFailed where it brought none."""
    if answer is None:
        raise SignInFailed("timeout", f"nobody has signed in within {timeout:g} s")
    if answer.get("iss") != issuer:
        raise SignInFailed("invalid_request", "the browser came back from another gateway")
    if "code" not in answer:
        raise _refused(answer.get("error", ""), answer.get("error_description", ""))
    return answer["code"]


def device(url: str, show: Callable[[DevicePrompt], object], *, wanted: Wanted = ANYTHING) -> SignedIn:
    """Sign in by a browser on any machine. `show` gets what the person needs, and returns at once.

    Raises SignInFailed, and the errors of `clusterra.errors`.
    """
    with _Server(url) as server:
        issuer = server.metadata()["issuer"]
        begun = server.posted("/v1/auth/device", wanted.form)
        try:
            code, interval, seconds = str(begun["device_code"]), float(begun["interval"]), int(begun["expires_in"])
            pages = str(begun["verification_uri"]), str(begun["verification_uri_complete"])
            prompt = DevicePrompt(str(begun["user_code"]), *pages, seconds)
        except (KeyError, TypeError, ValueError):
            raise SignInFailed("invalid_request", f"{url} does not answer as OAuth's device flow does") from None
        if not all(page.startswith(f"{issuer}/") for page in pages):
            raise SignInFailed("invalid_request", "the gateway names a page of another address")
        show(prompt)
        return server.polled(code, interval, min(seconds, LONGEST_DEVICE_SECONDS))


class _Server:
    """The gateway as an authorization server."""

    def __init__(self, url: str) -> None:
        self._url = canonical_url(url)
        self._transport = SyncTransport(Endpoint(self._url, NoToken(), ANSWER_SECONDS))

    def __enter__(self) -> "_Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def metadata(self) -> dict[str, str]:
        """Where its endpoints are. Raises SignInFailed for those of another address."""
        answered = self._object(self._transport.run(ask(Request("GET", METADATA), self._url)))
        issuer = answered.get("issuer")
        if issuer != self._url:
            raise SignInFailed(
                "invalid_request",
                f"the gateway at {self._url} says that its address is {str(issuer)[:200]!r}: use that",
            )
        endpoint = answered.get("authorization_endpoint")
        if not isinstance(endpoint, str) or not endpoint.startswith(f"{self._url}/"):
            raise SignInFailed("invalid_request", "the gateway names a page of another address")
        return {"issuer": self._url, "authorization_endpoint": endpoint}

    def posted(self, path: str, form: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a form, which is one of success. Raises SignInFailed for an error of OAuth."""
        reply = self._sent(path, form)
        if isinstance(reply, Failure):
            raise failed(self._url, reply)
        answered = self._object(reply)
        if reply.status != 200:
            raise _refused(str(answered.get("error", "")), str(answered.get("error_description", "")))
        return answered

    def polled(self, code: str, interval: float, seconds: float) -> SignedIn:
        """The token of a device code, once the person has approved."""
        form = {"client_id": CLIENT_ID, "grant_type": DEVICE_GRANT, "device_code": code}
        ends, interval = time.monotonic() + seconds, min(max(interval, 1.0), 60.0)
        while time.monotonic() + interval < ends:
            time.sleep(interval)
            reply = self._sent("/v1/auth/token", form)
            if isinstance(reply, Failure) or reply.status >= 500:
                continue
            answered = self._object(reply)
            if reply.status == 200:
                return _signed_in(self._url, answered)
            match answered.get("error"):
                case "authorization_pending" | "temporarily_unavailable":
                    continue
                case "slow_down":
                    interval = min(interval + _SLOWER_SECONDS, 60.0)
                case error:
                    raise _refused(str(error), str(answered.get("error_description", "")))
        raise _refused("expired_token", "")

    def _sent(self, path: str, form: Mapping[str, str]) -> Answer | Failure:
        request = Request("POST", path, body=urlencode(form).encode(), headers={"content-type": _FORM})
        return self._transport.send(request)

    def _object(self, answer: Answer) -> dict[str, Any]:
        try:
            answered = answer.json if media_type(answer).endswith("json") else None
        except ValueError:
            answered = None
        if not isinstance(answered, dict):
            raise NotClusterra(self._url, answer.status, answer.body)
        return answered


def _signed_in(url: str, answered: Mapping[str, Any]) -> SignedIn:
    token, seconds = answered.get("access_token"), answered.get("expires_in")
    usable = isinstance(token, str) and token.isascii() and token.isprintable() and len(token) <= MAX_TOKEN_CHARACTERS
    if not (usable and token) or not isinstance(seconds, int) or not 0 < seconds <= LONGEST_TOKEN_SECONDS:
        raise SignInFailed("invalid_request", f"{url} gave no token that can be used")
    return SignedIn(token, datetime.now(UTC) + timedelta(seconds=seconds), str(answered.get("scope", "")))


def _refused(code: str, described: str) -> SignInFailed:
    text = _TEXTS.get(code) or "the gateway refuses the sign-in"
    return SignInFailed(code[:100], f"{text} ({described[:300]})" if described else text)

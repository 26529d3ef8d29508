"""What a program sends the browser with, and where the browser is sent back to."""

import re
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import AfterValidator, ConfigDict, StringConstraints

from clusterra_gateway.http.requests.parameters import Query
from clusterra_gateway.program_sign_in.program import ClientId, ProgramRequest

_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})(/[A-Za-z0-9._~/-]*)?")


def _with_a_port(address: str) -> str:
    found = _LOOPBACK.fullmatch(address)
    if found is None or int(found[2]) > 65535:
        raise ValueError("the port must be one of 1 to 65535")
    return address


RedirectUri = Annotated[
    str, StringConstraints(max_length=200, pattern=rf"^{_LOOPBACK.pattern}$"), AfterValidator(_with_a_port)
]
"""Where the program listens, on the browser's own machine. A name such as `localhost` could lead elsewhere (RFC 8252,
section 8.3)."""


class Back(Query):
    """Where to send the browser back to."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client_id: ClientId
    redirect_uri: RedirectUri
    state: Annotated[str, StringConstraints(max_length=256, pattern=r"^[ -~]*$")] = ""
    """The program's own, by which it knows its browser again."""

    def address(self, **answer: str) -> str:
        """The address with this answer."""
        return f"{self.redirect_uri}?{urlencode(answer | ({'state': self.state} if self.state else {}))}"

    @property
    def origin(self) -> str:
        """What a form may lead to: CSP has no notation for an IPv6 address."""
        found = _LOOPBACK.fullmatch(self.redirect_uri)
        return f"http://127.0.0.1:{found[2]}" if found is not None and found[1] == "127.0.0.1" else "http:"


class AuthorizationRequest(Back, ProgramRequest):
    """The request of a program to be signed in (RFC 6749, section 4.1.1, with PKCE of RFC 7636)."""

    response_type: Literal["code"]
    code_challenge: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{43}$")]
    code_challenge_method: Literal["S256"]

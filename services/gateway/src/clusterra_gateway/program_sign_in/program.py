"""What a program asks for when it wants to be signed in, and where the browser is sent back to."""

import re
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from clusterra_gateway.accounts.roles import PROGRAM_SCOPES, Scope
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Query
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.identity.tokens.tokens import DAY

DEFAULT_SCOPES: tuple[Scope, ...] = ("profile", "clusters:read", "jobs:read", "jobs:write", "events:read")
"""Of a program that asks for none: those of every person's work, without management."""
UNNAMED = "unnamed machine"
"""The machine of a program that names none, or has an empty name: an empty parameter is none (RFC 6749, 3.1)."""
_ONE_SCOPE = "|".join(PROGRAM_SCOPES)

ClientId = Literal["clusterra-cli"]
"""The client id of every program: none can keep a secret, so that another id would prove nothing."""


class ProgramRequest(BaseModel):
    """The fields of the request of a program. It may have others (RFC 6749, section 3.1)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client_id: ClientId
    scope: Annotated[str, StringConstraints(max_length=400, pattern=rf"^(({_ONE_SCOPE})( ({_ONE_SCOPE}))*)?$")] = ""
    """What the token is to be used for, with spaces between; by default profile, clusters:read, jobs:read, jobs:write
    and events:read."""
    machine: Annotated[
        str,
        StringConstraints(max_length=64, pattern=r"^([A-Za-z0-9][A-Za-z0-9._@:() -]*)?$"),
        AfterValidator(lambda given: given or UNNAMED),
    ] = UNNAMED
    """The name of the machine, by which the person recognises the request. It becomes the name of the token."""
    token_seconds: Annotated[int, Field(ge=60, le=90 * DAY)] = 30 * DAY
    """How long the token is to be valid."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that the token gets, in our own order."""
        named = self.scope.split()
        return tuple(each for each in PROGRAM_SCOPES if each in named) or DEFAULT_SCOPES


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


class TokenAnswer(ResponseBody):
    """The API token of a program (RFC 6749, section 5.1). It is shown only this once."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - the name of a type
    expires_in: int
    """Seconds."""
    scope: str

    @classmethod
    def of(cls, made: FreshToken) -> "TokenAnswer":
        """The answer with a token that was just made."""
        valid = made.record.valid_until - made.record.created_at
        scope = " ".join(made.record.scopes or PROGRAM_SCOPES)
        return cls(access_token=made.text, expires_in=int(valid.total_seconds()), scope=scope)

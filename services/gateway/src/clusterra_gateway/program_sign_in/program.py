"""What a program asks for when it wants to be signed in."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from clusterra_gateway.accounts.roles import PROGRAM_SCOPES, Scope
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.identity.tokens.tokens import DAY

DEFAULT_SCOPES: tuple[Scope, ...] = ("profile", "clusters:read", "jobs:read", "jobs:write", "events:read")
"""Of a program that asks for none: all but the management of members."""
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
    """What the token is to be used for, with spaces between; by default all but the management of members."""
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

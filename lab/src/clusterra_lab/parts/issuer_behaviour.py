"""How OpenID Connect issuers differ: what Google, Okta and Entra ID publish, and say of a person."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

GOOGLE_DOMAIN = "acme.example"
DIRECTORY = "72f988bf-86f1-41af-91ab-2d7cd011db47"
"""The directory (`tid`) of everybody at Entra ID, but for those who are given another one."""
TENANT_ID = "{tenantid}"
"""Entra ID's placeholder for the directory in the issuer that it publishes for several directories."""

type Claims = dict[str, Any]


class Behaviour(BaseModel):
    """One issuer. In `claims` and `claims_of`, None leaves a claim out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    configured: str
    """The path of the issuer that its clients are configured with, and below which the discovery document is."""
    published: str
    """The path of the issuer in the discovery document."""
    endpoints: str
    """The path below which the endpoints are."""
    keys: int = 2
    """How many keys are published. The first one signs."""
    claims: Claims = {}
    """Of each id_token."""
    claims_of: dict[str, Claims] = {}
    """Of the id_tokens of single people, by their subject."""
    user_info_claims: Claims = {}
    """Of UserInfo."""


def google(claims_of: dict[str, Claims]) -> Behaviour:
    """Google: an issuer without a path, the Workspace (`hd`), and `azp` also for one audience."""
    return Behaviour(
        configured="",
        published="",
        endpoints="/o/oauth2/v2",
        claims={"hd": GOOGLE_DOMAIN, "azp": "{client_id}", "preferred_username": None},
        claims_of=claims_of,
    )


def okta(claims_of: dict[str, Claims]) -> Behaviour:
    """Okta: a custom authorization server is a path, and a thin id_token leaves the address to UserInfo."""
    return Behaviour(
        configured="/oauth2/default",
        published="/oauth2/default",
        endpoints="/oauth2/default/v1",
        claims={"email": None, "email_verified": None, "preferred_username": None, "ver": 1},
        claims_of=claims_of,
    )


def entra(claims_of: dict[str, Claims]) -> Behaviour:
    """Entra ID for organizations: each directory is an issuer of its own, and nothing is said of a verification."""
    nothing = {"email": None, "email_verified": None}
    return Behaviour(
        configured="/organizations/v2.0",
        published=f"/{TENANT_ID}/v2.0",
        endpoints="/organizations/oauth2/v2.0",
        keys=4,
        claims={**nothing, "preferred_username": "{email}", "tid": DIRECTORY, "ver": "2.0"},
        claims_of=claims_of,
        user_info_claims={**nothing, "preferred_username": None},
    )


class Front(BaseModel):
    """What the process of one issuer is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    port: int
    behaviour: Behaviour
    provider: str
    """The issuer of the provider where people sign in."""
    client_id: str
    """Of the application here, and of this issuer at the provider."""
    client_secret_file: Path
    redirect_uri: str
    """The application's."""

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://{self.host}:{self.port}"

    @property
    def callback(self) -> str:
        """Where the provider sends browsers back to."""
        return f"{self.address}/callback"

    @property
    def issuer(self) -> str:
        """The issuer that clients are configured with."""
        return self.address + self.behaviour.configured

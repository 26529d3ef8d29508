"""The issuers at which people sign in: one from the settings, others from a YAML file with one list, `issuers`."""

from collections import Counter
from typing import Annotated, Self
from urllib.parse import urlsplit

from clusterra_runtime.secrets.local import read_secret
from clusterra_runtime.secrets.reference import CheckedReference
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from clusterra_gateway.settings import IssuerKind, Settings, SettingsFileInvalid, is_loopback, read_settings_file

DEFAULT = "default"
"""The name of the issuer in the settings."""
NAME_PATTERN = r"^[a-z][a-z0-9-]{0,31}$"
MAX_ISSUERS = 100
MAX_FILE_BYTES = 256 * 1024

IssuerName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class ConfiguredIssuer(BaseModel):
    """One issuer, and the client that this installation is there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: IssuerName
    issuer: Annotated[str, Field(max_length=512)]
    """Its issuer identifier, such as `https://accounts.google.com`."""
    kind: IssuerKind = "oidc"
    client_id: Annotated[str, Field(min_length=1, max_length=512)]
    client_secret: CheckedReference | None = None
    """A `file:` or `env:` reference; None for a public client, which only PKCE protects."""

    @model_validator(mode="after")
    def _encrypted_unless_local(self) -> Self:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
            raise ValueError("issuer must be an https:// address (http:// is allowed for this machine only)")
        if parts.fragment or "#" in self.issuer:
            raise ValueError("issuer must have no fragment (`#`): no issuer's address has one")
        return self

    def secret(self) -> str | None:
        """The client secret; None for a public client. Raises SecretUnavailable."""
        return None if self.client_secret is None else read_secret(self.client_secret).decode()


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    issuers: tuple[ConfiguredIssuer, ...] = Field(max_length=MAX_ISSUERS)


def configured_issuers(settings: Settings) -> tuple[ConfiguredIssuer, ...]:
    """All issuers, first the one in the settings. Raises SettingsFileInvalid, SecretUnavailable."""
    file = settings.oidc_client_secret_file
    default = ConfiguredIssuer(
        name=DEFAULT,
        issuer=settings.oidc_issuer,
        kind=settings.oidc_kind,
        client_id=settings.oidc_client_id,
        client_secret=None if file is None else f"file:{file.absolute()}",
    )
    others = settings.issuers_file
    given = [default]
    if others is not None:
        given += read_settings_file(others, _File, max_bytes=MAX_FILE_BYTES).issuers
    for field in ("name", "issuer"):
        repeated = [value for value, times in Counter(getattr(each, field) for each in given).items() if times > 1]
        if repeated:
            raise SettingsFileInvalid(f"{others}: {', '.join(repeated)}: each {field} must be there once")
    for each in given:
        each.secret()  # what cannot be read ends the start, and not a person's sign-in
    return tuple(given)

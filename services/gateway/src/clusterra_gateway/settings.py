"""The gateway's settings from the environment (`CLUSTERRA_*`; the AWS SDK's own `AWS_*` for DynamoDB)."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import yaml
from clusterra_runtime.outbound import AllowedNetworks
from clusterra_runtime.secrets.reference import SECRET_FOLDERS, SecretFolders
from clusterra_runtime.settings import ServiceSettings
from pydantic import BaseModel, Field, ValidationError, model_validator

MAX_SESSION_SECONDS = 30 * 86_400
"""The longest that a session may be configured to last."""
MAX_URL_SECONDS = 12 * 3600
"""The longest that a presigned URL may be configured to be valid."""
IssuerKind = Literal["oidc", "google", "entra"]
"""`oidc` is any issuer that keeps to OpenID Connect, such as Okta; `google` and `entra` have rules of their own."""
DEFAULT_PORTS = {"http": 80, "https": 443}
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
LOOPBACK_DOMAIN = ".localhost"
"""Browsers resolve every name in this domain to loopback (RFC 6761, section 6.3), so that plain HTTP stays on the
machine. In a container network such a name may belong to another container of the same machine."""
COUNTRY_SECOND_LEVELS = frozenset({"ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ne", "net", "or", "org"})
"""Below a country's top-level domain, names below these belong to different owners."""


class RecordSettings(ServiceSettings):
    """Where the gateway's record is. `provision` needs no other settings."""

    table_prefix: str = "clusterra-"
    """Separates the tables of several installations in one AWS account."""
    catalogue_file: Path | None = None
    """The shapes (YAML) of clusters that have no catalogue of their own."""
    outbound_allowed: AllowedNetworks = ()
    """The link-local networks and addresses of metadata services that may be called, such as `["169.254.20.0/24"]`. All
    others are refused as the address of a slurmrestd, a bucket, a directory or an issuer."""


class Settings(RecordSettings):
    """Settings of the gateway."""

    webhook_networks: AllowedNetworks = ()
    """The same value as that of the events service. With any network, URLs of webhooks may begin with `http://`."""
    mail_from: str = ""
    """The same value as that of the events service. Empty: no mails are sent, and whoever chooses them is told so."""
    templates_dir: Path | None = None
    """The folder with the templates (`*.yaml`) that every tenant has; without it there are none."""
    console_dir: Path | None = None
    """The folder with the built console, which is served at `/`: `index.html` and `assets`. None: there is none."""

    http_host: str = "127.0.0.1"
    """The address to listen on."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """The TCP port to listen on; 0 for any free port."""
    public_url: str = "http://127.0.0.1:8080"
    """The gateway's address for browsers. `<public_url>/v1/auth/callback` is the redirect URI to register at the
    issuer."""

    sessions_url: str | None = None
    """The address of interactive sessions for browsers: an origin of its own, because what is served there is user
    content. Over HTTPS it should be of another site than `public_url`, such as `https://sessions.example.net` beside
    `https://gateway.example.com`. None: sessions cannot be opened."""
    sessions_same_site: bool = False
    """Whether `sessions_url` may be of the site of `public_url`, on another host: browsers then send the API's cookies
    with the requests of sessions' pages, and only the gateway's own checks refuse them."""
    sessions_port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """The TCP port to listen on for `sessions_url`; 0 for any free port."""

    console_origins: Annotated[tuple[str, ...], Field(max_length=20)] = ()
    """Other origins whose pages may use the API with the session cookie, such as `["https://console.example.com"]`."""

    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], Field(max_length=50)] = ()
    """The networks of the load balancers in front of the gateway, such as `["10.0.0.0/16"]`. From these alone, the
    right-most other address in `X-Forwarded-For` is the client's."""

    oidc_issuer: str
    """The URL of the OpenID Connect issuer that people sign in at."""
    oidc_client_id: str
    """The client id that the issuer gave to this installation."""
    oidc_client_secret_file: Path | None = None
    """None for a public client, which only PKCE protects."""

    oidc_kind: IssuerKind = "oidc"
    """`google` and `entra` follow the rules of Google and of Entra ID; any other issuer is `oidc`."""
    issuers_file: Path | None = None
    """Further issuers (YAML)."""

    secret_folders: SecretFolders = SECRET_FOLDERS
    """The folders below which secrets of `file:` references are read. A link out of them is not followed."""

    operators_file: Path | None = None
    """The operators of the platform, who manage tenants over HTTP (YAML). None: nobody does."""

    session_key_file: Path | None = None
    """32 or more random bytes, a JWK or a JWK set. There is no default: the gateway does not start without a key."""
    session_seconds: Annotated[float, Field(gt=0, le=MAX_SESSION_SECONDS)] = 12 * 3600.0
    """How long a session of a browser is valid. A request in the second half of its time renews it."""
    session_max_seconds: Annotated[float, Field(gt=0, le=MAX_SESSION_SECONDS)] = 7 * 86_400.0
    """When a browser must sign in again, however often it sends requests."""

    reads_per_minute: Annotated[int, Field(gt=0)] = 6000
    """How many GET and HEAD requests a person may send to a replica in a minute."""
    changes_per_minute: Annotated[int, Field(gt=0)] = 3000
    """How many POST and PATCH requests a person may send to a replica in a minute, and how many DELETE requests."""

    deletion_wait_seconds: Annotated[float, Field(ge=0)] = 3600.0
    """How long the deletion of a cluster waits at most until its edge has no worker any more."""

    edge_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0
    """Timeout of a request to a cluster's edge."""

    files_url_seconds: Annotated[int, Field(gt=0, le=MAX_URL_SECONDS)] = 900
    """How long a presigned URL of a file is valid, unless the client asks for another time."""
    files_url_max_seconds: Annotated[int, Field(gt=0, le=MAX_URL_SECONDS)] = 3600
    """The longest time that a client may ask for."""
    files_max_bytes: Annotated[int, Field(gt=0, le=5 * 1024**4)] = 5 * 1024**4
    """The largest file that may be uploaded."""

    @property
    def secure(self) -> bool:
        """Whether browsers reach the gateway over HTTPS, so that its cookies must not be sent over HTTP."""
        return urlsplit(self.public_url).scheme == "https"

    @property
    def origin(self) -> str:
        """The origin of our own pages, as browsers write it."""
        return origin_of(self.public_url)

    @property
    def consoles(self) -> frozenset[str]:
        """The console origins, as browsers write them."""
        return frozenset(map(origin_of, self.console_origins))

    @property
    def origins(self) -> frozenset[str]:
        """The origins whose pages may change something with the session cookie."""
        return self.consoles | {self.origin}

    @property
    def own_issuer(self) -> str:
        """The gateway's own name for programs that it signs in: its address, without a slash at its end."""
        return self.public_url.rstrip("/")

    @property
    def redirect_uri(self) -> str:
        """The address that the issuer sends browsers back to."""
        return f"{self.own_issuer}/v1/auth/callback"

    @model_validator(mode="after")
    def _encrypted_unless_local(self) -> Self:
        for name in ("public_url", "oidc_issuer"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
                raise ValueError(f"{name} must be an https:// address (http:// is allowed for this machine only)")
        origin_of(self.public_url)  # raises for a port that is none
        self._check_sessions_url()
        for origin in self.console_origins:
            origin_of(origin)
            parts = urlsplit(origin)
            encrypted = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
            if not encrypted or origin != f"{parts.scheme}://{parts.netloc}".lower() or "@" in origin:
                raise ValueError(
                    "console_origins must be origins, https://host or https://host:port, in lower case"
                    " (http:// is allowed for this machine only)"
                )
        if "#" in self.oidc_issuer:
            # The ids of people in their further tenants rely on it (`accounts.records`).
            raise ValueError("oidc_issuer must have no fragment (`#`): no issuer's address has one")
        return self

    def _check_sessions_url(self) -> None:
        """Raises ValueError for an address at which user content could reach what belongs to the API."""
        if self.sessions_url is None:
            return
        own, parts = urlsplit(self.public_url), urlsplit(self.sessions_url)
        local = parts.scheme == "http" and is_loopback(parts.hostname)
        if (parts.scheme != "https" and not local) or parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError("sessions_url must be https://host or https://host:port (http:// for this machine only)")
        if origin_of(self.sessions_url) in self.origins:
            raise ValueError("sessions_url must be an origin of its own: user content is served there")
        # Cookies know no ports: on the API's host a notebook's answers could set cookies for the API.
        if own.scheme == "https" and own.hostname == parts.hostname:
            raise ValueError("sessions_url must have another host than public_url")
        apart = self.sessions_same_site or own.scheme != "https" or is_loopback(own.hostname)
        if not apart and may_share_a_site(own.hostname or "", parts.hostname or ""):
            raise ValueError(
                "sessions_url must be of another site than public_url, such as https://sessions.example.net beside"
                " https://gateway.example.com: for pages of the same site, browsers send the API's cookies."
                " CLUSTERRA_SESSIONS_SAME_SITE=true allows it"
            )


def origin_of(address: str) -> str:
    """The origin of an http(s) address, as browsers write it: in lower case, without the scheme's own port.

    RFC 6454, section 6.2. Raises ValueError for a port that is none.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    written = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{written}{port}"


def is_loopback(host: str | None) -> bool:
    """Whether browsers reach `host`, as a URL names it in lower case, without leaving their machine."""
    return host is not None and (host in LOOPBACK or (host.endswith(LOOPBACK_DOMAIN) and host[0] != "."))


def may_share_a_site(one: str, other: str) -> bool:
    """Whether browsers may take two hosts for one site: whether both end with one registrable domain.

    Only a list of all public suffixes could say for sure. Here a suffix is a top-level domain, or a usual second level
    of a country, such as `co.uk`. So hosts below another suffix, such as `github.io`, are taken for one site, too.
    """
    if one == other:
        return True
    ends: list[str] = []
    for label, same in zip(*(reversed(host.rstrip(".").split(".")) for host in (one, other)), strict=False):
        if label != same:
            break
        ends.append(label)
    is_address = one.replace(".", "").isdecimal() or ":" in one
    suffix = 2 if len(ends) > 1 and len(ends[0]) == 2 and ends[1] in COUNTRY_SECOND_LEVELS else 1
    return len(ends) > suffix and not is_address


class SettingsFileInvalid(ValueError):
    """A file that a setting names cannot be used. The error names the file and what to correct, and no value."""


def read_settings_file[M: BaseModel](path: Path, model: type[M], *, max_bytes: int) -> M:
    """Reads a YAML file that a setting names. Raises SettingsFileInvalid."""
    try:
        if path.stat().st_size > max_bytes:
            raise SettingsFileInvalid(f"{path} is larger than {max_bytes} bytes")
        return model.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsFileInvalid(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = "" if mark is None else f": line {mark.line + 1}"
        raise SettingsFileInvalid(f"{path} is not valid YAML{where}") from None
    except ValidationError as error:
        # Without the input: somebody may have written a secret itself.
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_input=False)
        )
        raise SettingsFileInvalid(f"{path}: {wrong}") from None

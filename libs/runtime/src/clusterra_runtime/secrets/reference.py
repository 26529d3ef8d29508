"""References to secrets, taken apart: which of the four sources has the value, and where in it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from clusterra_contracts.registry import SecretReference
from pydantic import AfterValidator, Field

_NAMESPACE = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_KEY = r"[A-Za-z0-9._-]{1,253}"
_KUBERNETES = re.compile(rf"(?P<namespace>{_NAMESPACE})/(?P<name>{_NAME})/(?P<key>{_KEY})")
_AWS_NAME = r"[A-Za-z0-9/_+=.@-]{1,512}"
_AWS_ARN = rf"arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z0-9-]+):[0-9]{{12}}:secret:{_AWS_NAME}"
_AWS = re.compile(rf"(?P<id>{_AWS_ARN}|{_AWS_NAME})(#(?P<json_key>[^#\s]{{1,256}}))?")

_VARIABLE = re.compile(r"CLUSTERRA_SECRET_[A-Z0-9_]{1,200}")

FORMS = {
    "file": "file:/absolute/path, without `..`",
    "env": "env:CLUSTERRA_SECRET_<NAME>",
    "kubernetes": "kubernetes:<namespace>/<secret>/<key>",
    "aws-secretsmanager": "aws-secretsmanager:<name or ARN>, with #<key> for one value of a JSON object",
}


class SecretUnavailable(RuntimeError):
    """A secret cannot be read. The error names the reference, which is not secret, and what to do; never a value."""


class SourceUnavailable(SecretUnavailable):
    """The source of a secret does not answer at present. What it said before still holds."""


class InvalidReference(SecretUnavailable, ValueError):
    """A reference does not have the form that its source expects."""


@dataclass(frozen=True, slots=True)
class FileSecret:
    """The whole content of a file."""

    path: Path


@dataclass(frozen=True, slots=True)
class EnvironmentSecret:
    """The value of an environment variable."""

    name: str


@dataclass(frozen=True, slots=True)
class KubernetesSecret:
    """One key of a Secret of Kubernetes."""

    namespace: str
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class AwsSecret:
    """A secret of AWS Secrets Manager, or one value of the JSON object in it."""

    id: str
    """Its name or ARN."""
    region: str | None
    """The region that the ARN names; None for a name: the region of the process."""
    json_key: str | None


type Source = FileSecret | EnvironmentSecret | KubernetesSecret | AwsSecret


@lru_cache(maxsize=1024)
def parse(reference: SecretReference) -> Source:
    """Takes a reference apart. Raises InvalidReference, which names the expected form."""
    scheme, _, location = reference.partition(":")
    match scheme:
        case "file":
            path = Path(location)
            # No path of an operating system has a NUL or a lone surrogate in it, and no sane one a line break.
            if location.isprintable() and path.is_absolute() and ".." not in path.parts:
                return FileSecret(path)
        case "env":
            if _VARIABLE.fullmatch(location):
                return EnvironmentSecret(location)
        case "kubernetes":
            if found := _KUBERNETES.fullmatch(location):
                return KubernetesSecret(found["namespace"], found["name"], found["key"])
        case "aws-secretsmanager":
            if found := _AWS.fullmatch(location):
                return AwsSecret(found["id"], found["region"], found["json_key"])
        case _:
            # The text is not repeated: somebody may have written the secret itself.
            raise InvalidReference(f"a reference to a secret must be one of: {'; '.join(FORMS.values())}")
    raise InvalidReference(f"{reference!r} must have the form {FORMS[scheme]}")


def _checked(reference: str) -> str:
    parse(reference)
    return reference


SECRET_FOLDERS = (Path("/etc/clusterra"),)
"""Where deployments mount the secrets of services."""
SecretFolders = Annotated[tuple[Path, ...], Field(max_length=20)]

CheckedReference = Annotated[str, AfterValidator(_checked)]
"""A reference whose form is checked where people write it."""
StoredReference = Annotated[SecretReference, AfterValidator(_checked)]
"""The same, for one that services store and read: not `env:`, which services of the release before do not know."""

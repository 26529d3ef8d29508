"""Checks of a binding beyond its form: what no service could work with. Made before it is written, and when it is read.

The wire model does not have them, so that an entry that an older release wrote stays readable, and its cluster visible.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from clusterra_contracts.registry import AccessKeys, ClusterBinding, StorageBinding

from clusterra_runtime.secrets.reference import InvalidReference, parse

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_MAX_HOST = 253
_PATH = re.compile(r"(/[A-Za-z0-9._~-]*)*")
_BUCKET = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,576}")
_EXTERNAL_ID = re.compile(r"[A-Za-z0-9+=,.@:/-]{2,1224}")


class InvalidBinding(ValueError):
    """No service could work with a binding. The text names what is wrong, and no secret."""


def check_binding(binding: ClusterBinding) -> None:
    """Check the addresses and references of a binding. Raises InvalidBinding."""
    check_slurmrestd_url(binding.slurmrestd_url)
    _check_reference("jwt_key", binding.jwt_key)
    if binding.storage is not None:
        check_storage(binding.storage)


def check_storage(storage: StorageBinding) -> StorageBinding:
    """Return the storage if its names, addresses and references are such as S3 has. Raises InvalidBinding."""
    if _BUCKET.fullmatch(storage.bucket) is None:
        raise InvalidBinding("storage.bucket: 3 to 63 of a-z, 0-9, `-` and `.`, as S3 names buckets")
    if _REGION.fullmatch(storage.region) is None:
        raise InvalidBinding("storage.region: a region such as us-east-1; MinIO's is us-east-1 unless it has another")
    for name in ("endpoint", "public_endpoint"):
        if (url := getattr(storage, name)) is not None:
            check_url(f"storage.{name}", url)
            if urlsplit(url).path:
                raise InvalidBinding(f"storage.{name}: it must have no path, not even a slash at its end")
    if storage.public_endpoint is not None and storage.endpoint is None:
        raise InvalidBinding("storage.public_endpoint needs an endpoint: AWS has the same address for everybody")
    match storage.credentials:
        case AccessKeys() as keys:
            _check_reference("storage.credentials.access_key_id", keys.access_key_id)
            _check_reference("storage.credentials.secret_access_key", keys.secret_access_key)
        case role:
            if _ROLE.fullmatch(role.role_arn) is None:
                raise InvalidBinding("storage.credentials.role_arn: arn:aws:iam::<account>:role/<name>")
            if role.external_id is not None and _EXTERNAL_ID.fullmatch(role.external_id) is None:
                raise InvalidBinding("storage.credentials.external_id: 2 to 1224 of A-Z, a-z, 0-9 and +=,.@:/-")
    return storage


def _check_reference(name: str, reference: str) -> None:
    try:
        parse(reference)
    except InvalidReference as error:
        raise InvalidBinding(f"{name}: {error}") from None


def check_slurmrestd_url(url: str) -> str:
    """Return the URL if it is one that a client of slurmrestd can use. Raises InvalidBinding."""
    return check_url("slurmrestd_url", url)


def check_url(name: str, url: str) -> str:
    """Return the URL if it is a plain one: a host, perhaps a port and a path. `name` is for the error.

    Raises InvalidBinding, whose text does not repeat the URL: there may be a password in it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidBinding(f"{name}: it is no URL, or its port is not between 1 and 65535") from None
    if parts.scheme not in {"http", "https"} or not url.startswith(("http://", "https://")):
        raise InvalidBinding(f"{name}: it must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise InvalidBinding(f"{name}: it must hold no user name and no password")
    if not host or not _is_host(host) or port == 0:
        raise InvalidBinding(f"{name}: it must name a host, and may name a port from 1 to 65535")
    # `urlsplit` drops line breaks and cannot tell an empty query from none.
    rest = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if rest != url or not _PATH.fullmatch(parts.path):
        raise InvalidBinding(f"{name}: after the host and the port it may have a plain path, and nothing else")
    return url


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.removesuffix(".").split(".")
        return len(host) <= _MAX_HOST and all(_LABEL.fullmatch(label) for label in labels)
    return "%" not in host

"""Checks of a binding beyond its form: what no service could work with. Made before it is written, and when it is read.

The wire model does not have them, so that an entry that an older release wrote stays readable, and its cluster visible.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from clusterra_contracts.registry import ClusterBinding

from clusterra_runtime.secrets.reference import InvalidReference, parse

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_MAX_HOST = 253
_PATH = re.compile(r"(/[A-Za-z0-9._~-]*)*")


class InvalidBinding(ValueError):
    """No service could work with a binding. The text names what is wrong, and no secret."""


def check_binding(binding: ClusterBinding) -> None:
    """Check the addresses and references of a binding. Raises InvalidBinding."""
    check_slurmrestd_url(binding.slurmrestd_url)
    try:
        parse(binding.jwt_key)
    except InvalidReference as error:
        raise InvalidBinding(f"jwt_key: {error}") from None


def check_slurmrestd_url(url: str) -> str:
    """Return the URL if it is one that a client of slurmrestd can use. Raises InvalidBinding.

    The text of the error does not repeat the URL: there may be a password in it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidBinding("slurmrestd_url: it is no URL, or its port is not between 1 and 65535") from None
    if parts.scheme not in {"http", "https"} or not url.startswith(("http://", "https://")):
        raise InvalidBinding("slurmrestd_url: it must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise InvalidBinding("slurmrestd_url: it must hold no user name and no password")
    if not host or not _is_host(host) or port == 0:
        raise InvalidBinding("slurmrestd_url: it must name a host, and may name a port from 1 to 65535")
    # `urlsplit` drops line breaks and cannot tell an empty query from none.
    rest = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if rest != url or not _PATH.fullmatch(parts.path):
        raise InvalidBinding("slurmrestd_url: after the host and the port it may have a plain path, and nothing else")
    return url


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.removesuffix(".").split(".")
        return len(host) <= _MAX_HOST and all(_LABEL.fullmatch(label) for label in labels)
    return "%" not in host

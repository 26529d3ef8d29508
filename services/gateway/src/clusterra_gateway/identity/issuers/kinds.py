"""What differs between kinds of issuers: how they name themselves, and what their word on an address counts."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from clusterra_gateway.settings import IssuerKind

_DIRECTORY = "{tenantid}"
"""Stands for the id of a directory in the issuer that Entra ID publishes for several directories."""
_DIRECTORY_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_GOOGLE_MAIL = ("@gmail.com", "@googlemail.com")


def may_publish(kind: IssuerKind, configured: str, published: str) -> bool:
    """Whether the discovery document of a configured issuer may name `published` as its issuer.

    OpenID Connect Discovery 4.3: they are equal. Entra ID's addresses for several directories (`common`,
    `organizations`) publish one with `{tenantid}` in place of the directory.
    """
    if kind != "entra" or _DIRECTORY not in published:
        return configured == published
    return any(published.replace(_DIRECTORY, part) == configured for part in urlsplit(configured).path.split("/"))


def issuer_of(kind: IssuerKind, published: str, claims: Mapping[str, Any]) -> str | None:
    """The issuer (`iss`) that an id_token with these claims must have; None where its directory is missing."""
    if kind != "entra" or _DIRECTORY not in published:
        return published
    directory = claims.get("tid")
    if not isinstance(directory, str) or not _DIRECTORY_ID.fullmatch(directory):
        return None
    return published.replace(_DIRECTORY, directory)


def may_issue(kind: IssuerKind, configured: str, issuer: str) -> bool:
    """Whether id_tokens of `issuer` may come from a configured issuer: for Entra ID, from that for any directory."""
    if configured == issuer:
        return True
    here, there = urlsplit(configured), urlsplit(issuer)
    shared = here.path.split("/")[1:2] in (["common"], ["organizations"])
    same = (here.scheme, here.netloc, here.path.split("/")[2:]) == (
        there.scheme,
        there.netloc,
        there.path.split("/")[2:],
    )
    return kind == "entra" and shared and same


def address_of(kind: IssuerKind, email: str | None, user_name: str | None) -> str:
    """A person's e-mail address by their claims `email` and `preferred_username`; empty for none.

    Entra ID may give it as the user name alone, in a domain of the directory. At other issuers people choose their user
    names, so that one says nothing of an address (OpenID Connect Core 5.7).
    """
    if email is None and kind == "entra" and "@" in (user_name or ""):
        return user_name or ""
    return email or ""


def verified(kind: IssuerKind, email: str, email_verified: bool | None, hosted_domain: str | None) -> bool | None:
    """Whether the issuer has verified an address; None where its word says nothing of it.

    Entra ID: the administrators of a directory write any address, so a claim of theirs counts nothing. Google: it is
    authoritative for its own mail and for the domains of a Workspace (`hd`); another address was verified once, and may
    belong to somebody else today ("Verify the Google ID token on your server side").
    """
    if kind == "entra":
        return None
    if kind == "google" and email_verified:
        return bool(hosted_domain) or email.lower().endswith(_GOOGLE_MAIL)
    return email_verified

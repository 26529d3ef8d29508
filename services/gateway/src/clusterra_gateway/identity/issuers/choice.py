"""The issuers that this gateway serves, and which of them a person signs in at."""

from collections.abc import Sequence

import aiohttp

from clusterra_gateway.http.requests.errors import NotFound, Unauthenticated
from clusterra_gateway.identity.issuers.configuration import DEFAULT, ConfiguredIssuer, IssuerName
from clusterra_gateway.identity.issuers.oidc import Issuer


class ServedIssuers:
    """All issuers by name. They share nothing: while one fails, people sign in at the others."""

    def __init__(self, http: aiohttp.ClientSession, given: Sequence[ConfiguredIssuer], callback: str) -> None:
        # Each issuer sends browsers back to an address of its own, so that no answer of one passes for another's
        # (RFC 9700, 4.4.2.2).
        self._by_name = {
            each.name: Issuer(http, each, callback if each.name == DEFAULT else f"{callback}/{each.name}")
            for each in given
        }

    @property
    def default(self) -> Issuer:
        """The issuer in the settings."""
        return self._by_name[DEFAULT]

    @property
    def all(self) -> tuple[Issuer, ...]:
        """All of them, the default first."""
        return tuple(self._by_name.values())

    def named(self, name: IssuerName) -> Issuer:
        """The issuer with this name. Raises NotFound."""
        issuer = self._by_name.get(name)
        if issuer is None:
            raise NotFound(f"there is no issuer {name}", hint="GET /v1/auth/issuers lists those that are served here")
        return issuer

    def of_domain(self, domain: str, bound: Sequence[str]) -> Issuer:
        """The first issuer that may assert addresses of a domain; the default for one that is bound to none.

        Raises NotFound.
        """
        if not bound:
            return self.default
        for each in bound:
            for issuer in self._by_name.values():
                if issuer.may_issue(each):
                    return issuer
        raise NotFound(f"nobody can sign in for {domain} here", hint="contact the operators: its issuer is not served")

    def begun_at(self, identifier: str) -> Issuer:
        """The issuer where a login began; the release before named none. Raises Unauthenticated."""
        for issuer in self._by_name.values():
            if issuer.identifier == identifier:
                return issuer
        if not identifier:
            return self.default
        raise Unauthenticated("this login began at an issuer that is not served", hint="begin again at /v1/auth/login")

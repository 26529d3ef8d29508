"""The room of identity: who calls, what they may do, sign-in by the browser, and API tokens."""

from dataclasses import dataclass

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.authentication import Authentication
from clusterra_gateway.identity.access.cookies import Cookies
from clusterra_gateway.identity.access.limits import RateLimits, Rates
from clusterra_gateway.identity.access.operators import Operators
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.identity.access.token_uses import TokenUses
from clusterra_gateway.identity.access.unix_users import Deactivations, UnixUsers
from clusterra_gateway.identity.issuers.choice import ServedIssuers
from clusterra_gateway.identity.sign_in.enrolment import Enrolment
from clusterra_gateway.identity.sign_in.login import Login
from clusterra_gateway.identity.sign_in.profile import Profiles
from clusterra_gateway.identity.tokens.revocations import KINDS, Revocations
from clusterra_gateway.identity.tokens.token_records import TokenRecords
from clusterra_gateway.identity.tokens.tokens import ApiTokens
from clusterra_gateway.room import Observed, Room


@dataclass(frozen=True)
class IdentityParts:
    """What other rooms use of this one."""

    signing_keys: SigningKeys
    authentication: Authentication
    cookies: Cookies
    access: Access
    revocations: Revocations
    tokens: TokenRecords
    uses: TokenUses
    unix_users: UnixUsers

    @classmethod
    def of(cls, connections: Connections, signing_keys: SigningKeys, unix_users: UnixUsers) -> "IdentityParts":
        """Builds each of them once. Raises SettingsFileInvalid."""
        settings, bus, directory = connections.settings, connections.bus, connections.directory
        uses = TokenUses(directory.store)
        authentication = Authentication(
            directory,
            signing_keys,
            settings.origins,
            Operators(settings.operators_file),
            ClientAddresses(settings.trusted_proxies),
            uses,
            secure=settings.secure,
        )
        cookies = Cookies(signing_keys, settings)
        limits = RateLimits(Rates(settings.reads_per_minute, settings.changes_per_minute))
        access = Access(authentication, bus.registry, limits, cookies, unix_users)
        revocations = Revocations(authentication, access.streams, bus.revocations, bus.registry)
        tokens = TokenRecords(directory, bus.registry, revocations)
        return cls(signing_keys, authentication, cookies, access, revocations, tokens, uses, unix_users)


def room(
    connections: Connections,
    parts: IdentityParts,
    issuers: ServedIssuers,
    deactivations: Deactivations,
    once: AnswerOnce,
) -> Room:
    """What this room offers."""
    directory, bus = connections.directory, connections.bus
    enrolment = Enrolment(directory, deactivations, bus.registry, default_issuer=connections.settings.oidc_issuer)
    return Room(
        routes=routes_of(
            Login(issuers, enrolment, parts.cookies, parts.authentication, parts.revocations),
            Profiles(directory, bus.ledger, bus.registry, parts.unix_users),
            ApiTokens(parts.tokens, once),
            access=parts.access,
        ),
        observers=(Observed(KINDS, parts.revocations.on_event),),
        revocation_observers=(parts.revocations.on_revocation,),
    )

"""The room of people: members and their memberships, invitations, and service accounts."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.people.invitation_handlers import InvitationHandlers
from clusterra_gateway.people.invitations import Invitations
from clusterra_gateway.people.member_handlers import MemberHandlers, TokenHandlers
from clusterra_gateway.people.membership import Membership
from clusterra_gateway.people.memberships import MembershipHandlers
from clusterra_gateway.people.service_account_handlers import KeyHandlers, ServiceAccountHandlers
from clusterra_gateway.people.service_accounts import ServiceAccounts
from clusterra_gateway.room import Room


def room(
    connections: Connections,
    identity: IdentityParts,
    membership: Membership,
    invitations: Invitations,
    once: AnswerOnce,
) -> Room:
    """What this room offers."""
    tokens, revocations = identity.tokens, identity.revocations
    directory = connections.directory
    accounts = ServiceAccounts(directory, connections.bus.registry)
    return Room(
        routes=routes_of(
            MemberHandlers(membership, revocations),
            TokenHandlers(membership, tokens, revocations),
            MembershipHandlers(directory, identity.cookies, identity.authentication, revocations),
            InvitationHandlers(invitations, once),
            ServiceAccountHandlers(accounts, revocations, once),
            KeyHandlers(accounts, tokens, revocations, once),
            access=identity.access,
        )
    )

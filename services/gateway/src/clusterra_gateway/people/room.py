"""The room of people: members and their memberships, invitations, and service accounts."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.people.invitations import routes as invitations
from clusterra_gateway.people.invitations.invitations import Invitations
from clusterra_gateway.people.members import routes as members
from clusterra_gateway.people.members.membership import Membership
from clusterra_gateway.people.memberships import routes as memberships
from clusterra_gateway.people.service_accounts import routes as service_accounts
from clusterra_gateway.people.service_accounts.service_accounts import ServiceAccounts
from clusterra_gateway.room import Room


def room(
    connections: Connections,
    identity: IdentityParts,
    membership: Membership,
    invited: Invitations,
    once: AnswerOnce,
) -> Room:
    """What this room offers."""
    access, tokens, revocations = identity.access, identity.tokens, identity.revocations
    directory = connections.directory
    accounts = ServiceAccounts(directory, connections.bus.registry)
    return Room(
        routes=(
            *members.routes(access, membership, tokens, revocations),
            *memberships.routes(access, directory, identity.cookies, identity.authentication, revocations),
            *invitations.routes(access, invited, once),
            *service_accounts.routes(access, accounts, tokens, revocations, once),
        )
    )

"""The room of people: members and their memberships, invitations, and service accounts."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.people.deactivations import WAKING, DeactivationSweep
from clusterra_gateway.people.invitation_handlers import InvitationHandlers
from clusterra_gateway.people.invitations import Invitations
from clusterra_gateway.people.member_handlers import MemberHandlers, TokenHandlers
from clusterra_gateway.people.membership import Membership
from clusterra_gateway.people.memberships import MembershipHandlers
from clusterra_gateway.people.notification_handlers import NotificationHandlers
from clusterra_gateway.people.notifications import Notifications
from clusterra_gateway.people.saved_view_handlers import SavedViewHandlers
from clusterra_gateway.people.saved_views import SavedViews
from clusterra_gateway.people.service_account_handlers import KeyHandlers, ServiceAccountHandlers
from clusterra_gateway.people.service_accounts import ServiceAccounts
from clusterra_gateway.room import Observed, Room


def room(
    connections: Connections,
    identity: IdentityParts,
    membership: Membership,
    invitations: Invitations,
    once: AnswerOnce,
) -> Room:
    """What this room offers."""
    directory, revocations = connections.directory, identity.revocations
    accounts = ServiceAccounts(directory, connections.bus.registry, revocations)
    sweep = DeactivationSweep(directory.store, connections.bus.slurm, connections.bus.registry)
    return Room(
        routes=routes_of(
            MemberHandlers(membership),
            TokenHandlers(membership, identity.tokens),
            MembershipHandlers(directory, identity.cookies, identity.authentication, revocations),
            InvitationHandlers(invitations, once),
            ServiceAccountHandlers(accounts, once),
            KeyHandlers(accounts, identity.tokens, once),
            SavedViewHandlers(SavedViews(directory.store)),
            NotificationHandlers(Notifications(directory.store), enabled=bool(connections.settings.mail_from)),
            access=identity.access,
        ),
        background={"deactivations": sweep.sweeper().run},
        background_observers=(Observed(WAKING, sweep.on_event),),
    )

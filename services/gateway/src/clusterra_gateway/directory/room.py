"""The room of directories: a site's identity sources, and the people that it provisions."""

from dataclasses import dataclass

from clusterra_runtime.outbound import Outbound
from clusterra_runtime.store.store import Store

from clusterra_gateway.connections import Connections
from clusterra_gateway.directory.identity_sources import IdentityHandlers
from clusterra_gateway.directory.mail_recipients import MailRecipients
from clusterra_gateway.directory.maps.map_records import MappedUsers, MapRecords
from clusterra_gateway.directory.maps.refresh import DirectoryRefresh
from clusterra_gateway.directory.scim.changes import Changes
from clusterra_gateway.directory.scim.discovery import Discovery
from clusterra_gateway.directory.scim.groups import Groups
from clusterra_gateway.directory.scim.handlers import GroupHandlers, UserHandlers
from clusterra_gateway.directory.scim.provisioned import ProvisionedDirectory
from clusterra_gateway.directory.scim.users import Users
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.people.membership import Membership
from clusterra_gateway.room import Room


@dataclass(frozen=True)
class DirectoryParts:
    """What other rooms use of this one."""

    maps: MapRecords
    unix_users: MappedUsers
    provisioned: ProvisionedDirectory

    @classmethod
    def of(cls, store: Store) -> "DirectoryParts":
        """Builds each of them once."""
        maps = MapRecords(store)
        return cls(maps, MappedUsers(maps), ProvisionedDirectory(store))


def room(connections: Connections, identity: IdentityParts, parts: DirectoryParts, membership: Membership) -> Room:
    """What this room offers."""
    registry, provisioned = connections.bus.registry, parts.provisioned
    public_url = connections.settings.own_issuer
    outbound = Outbound(connections.settings.outbound_allowed)
    refresh = DirectoryRefresh(parts.maps, registry, connections.secrets, outbound)
    changes = Changes(connections.directory, registry)
    groups = Groups(provisioned, changes)
    users = Users(connections.directory, membership, changes, groups)
    recipients = MailRecipients(connections.directory, registry, parts.maps, provisioned)
    return Room(
        routes=routes_of(
            Discovery(),
            UserHandlers(users, provisioned, public_url),
            GroupHandlers(groups, provisioned, public_url),
            IdentityHandlers(parts.maps, registry),
            access=identity.access,
        ),
        background={
            "identity maps": refresh.sweeper().run,
            "mail recipients": lambda: recipients.serve(connections.bus.client),
        },
    )

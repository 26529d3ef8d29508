"""The room of files: those in the buckets of clusters, and those in the shared folders of jobs."""

from dataclasses import dataclass

from clusterra_gateway.connections import Connections
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.folders import Folders
from clusterra_gateway.files.handlers import FileEvents, FileHandlers
from clusterra_gateway.files.presigned import Bounds
from clusterra_gateway.files.upload_handlers import UploadHandlers
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.room import Room
from clusterra_gateway.settings import Settings


@dataclass(frozen=True)
class FileParts:
    """What other rooms use of this one."""

    buckets: Buckets
    bounds: Bounds

    @classmethod
    def of(cls, settings: Settings, buckets: Buckets) -> "FileParts":
        """Builds each of them once."""
        bounds = Bounds(settings.files_url_seconds, settings.files_url_max_seconds, settings.files_max_bytes)
        return cls(buckets, bounds)


def room(connections: Connections, access: Access, parts: FileParts, once: AnswerOnce) -> Room:
    """What this room offers."""
    events = FileEvents(connections.directory.outbox)
    return Room(
        routes=routes_of(
            FileHandlers(parts.buckets, parts.bounds, events, once),
            UploadHandlers(parts.buckets, parts.bounds, once),
            Folders(connections.bus.edge),
            access=access,
        )
    )

"""The room of staging: files that are copied before jobs start and after they end."""

from clusterra_gateway.connections import Connections
from clusterra_gateway.files.room import FileParts
from clusterra_gateway.room import Observed, Room
from clusterra_gateway.staging.reconcile import StagingReconciler
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.staging.sweep import WAKING, StagingSweep


def room(connections: Connections, files: FileParts, records: StagingRecords) -> Room:
    """What this room offers."""
    bus = connections.bus
    reconciler = StagingReconciler(
        records,
        connections.directory,
        (bus.slurm, bus.edge),
        (files.buckets, files.bounds),
        connections.settings.instance,
    )
    sweep = StagingSweep(records, reconciler)
    return Room(background={"staging": sweep.sweeper().run}, background_observers=(Observed(WAKING, sweep.on_event),))

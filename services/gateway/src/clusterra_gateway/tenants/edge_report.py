"""What a cluster's edge reports: whether it still has workers."""

from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode_foreign
from clusterra_contracts.bus.topology import HB, SCALE
from clusterra_contracts.heartbeat import MAX_DECODED_BYTES, Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats import direct
from clusterra_runtime.nats.bus import Client


async def last_heartbeat(client: Client, ref: ClusterRef) -> tuple[Heartbeat, datetime] | None:
    """The last heartbeat of a cluster, and when it was heard; None when none is stored.

    By the server's clock: an agent whose clock is behind is not silent. Raises BusUnavailable, InvalidMessage.
    """
    stored = await direct.last_stored(client, HB.name, subjects.heartbeat(ref))
    if stored is None:
        return None
    heartbeat = decode_foreign(Heartbeat, stored.body, dict(stored.headers), max_bytes=MAX_DECODED_BYTES)
    return heartbeat, stored.stored_at or heartbeat.sent_at


async def has_nothing(client: Client, ref: ClusterRef, since: datetime) -> bool:
    """Whether an edge has said after `since` that it has no worker, and no worker is desired.

    A silent edge has said nothing. Raises BusUnavailable, InvalidMessage.
    """
    heard = await last_heartbeat(client, ref)
    if heard is None or heard[1] <= since or heard[0].workers is None or heard[0].workers:
        return False
    desired = await direct.last(client, SCALE.name, subjects.scale_desired(ref), DesiredState)
    return desired is None or not any(target.replicas for target in desired[0].targets or ())

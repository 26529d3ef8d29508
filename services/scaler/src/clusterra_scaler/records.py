"""What is kept of a cluster for the next scaler, compressed: DynamoDB takes 400 kB in an item."""

import zlib

import structlog
from clusterra_runtime.store.item import Value
from pydantic import TypeAdapter, ValidationError

from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.estimates.run_time_model import Counts
from clusterra_scaler.planner.observed.state import FleetState

log = structlog.get_logger(__name__)

_BYTES = TypeAdapter(bytes)


def packed_state(state: FleetState) -> bytes:
    """Small enough also with bookings for ten thousand jobs, which are a megabyte of JSON."""
    return zlib.compress(state.model_dump_json().encode())


def unpacked_state(value: Value) -> FleetState:
    """Of a state that was kept, also as the JSON that it was kept as before. Raises ValidationError and zlib.error."""
    if isinstance(value, str):
        return FleetState.model_validate_json(value)
    return FleetState.model_validate_json(zlib.decompress(_BYTES.validate_python(value, strict=True)))


def packed_history(history: RunHistory) -> bytes:
    """Small enough for all the histories that are kept."""
    return zlib.compress(history.counts.model_dump_json().encode())


def unpacked_history(value: Value) -> RunHistory:
    """What cannot be read is learned anew: losing it costs a little money, and nothing else."""
    try:
        compressed = _BYTES.validate_python(value, strict=True)
        return RunHistory(Counts.model_validate_json(zlib.decompress(compressed)))
    except (ValidationError, zlib.error) as error:
        log.warning("run_times_unreadable", reason=str(error), consequence="they are learned anew")
        return RunHistory()

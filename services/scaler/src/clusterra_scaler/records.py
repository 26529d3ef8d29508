"""The stored form of what outlives a scaler process, compressed because a DynamoDB item holds 400 kB at most."""

import zlib

import structlog
from clusterra_runtime.store.item import Value
from pydantic import TypeAdapter, ValidationError

from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.estimates.run_time_model import RunTimeCounts
from clusterra_scaler.planner.observed.state import FleetState

log = structlog.get_logger(__name__)

_BYTES = TypeAdapter(bytes)


def packed_state(state: FleetState) -> bytes:
    """Compress a state. Even with bookings for ten thousand jobs, a megabyte of JSON, the result fits into an item."""
    return zlib.compress(state.model_dump_json().encode())


def unpacked_state(value: Value) -> FleetState:
    """Read a stored state, also one stored as plain JSON by earlier versions. Raises ValidationError and zlib.error."""
    if isinstance(value, str):
        return FleetState.model_validate_json(value)
    return FleetState.model_validate_json(zlib.decompress(_BYTES.validate_python(value, strict=True)))


def packed_history(history: RunHistory) -> bytes:
    """Compress the counts of the run-time history. The result fits into an item."""
    return zlib.compress(history.counts.model_dump_json().encode())


def unpacked_history(value: Value) -> RunHistory:
    """Read a stored history. An unreadable one is replaced by an empty one: relearning it only costs a little money."""
    try:
        compressed = _BYTES.validate_python(value, strict=True)
        return RunHistory(RunTimeCounts.model_validate_json(zlib.decompress(compressed)))
    except (ValidationError, zlib.error) as error:
        log.warning("run_times_unreadable", reason=str(error), consequence="they are learned anew")
        return RunHistory()

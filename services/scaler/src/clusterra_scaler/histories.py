"""What was learned of a cluster's run times as it is kept for the next scaler."""

import zlib

import structlog
from clusterra_runtime.item import Value
from pydantic import TypeAdapter, ValidationError

from clusterra_scaler.planner.packing.learned import Counts
from clusterra_scaler.planner.run_history import RunHistory

log = structlog.get_logger(__name__)


def packed(history: RunHistory) -> bytes:
    """Well below DynamoDB's 400 kB for all the histories that are kept."""
    return zlib.compress(history.counts.model_dump_json().encode())


def unpacked(value: Value) -> RunHistory:
    """What cannot be read is learned anew: losing it costs a little money, and nothing else."""
    try:
        compressed = TypeAdapter(bytes).validate_python(value, strict=True)
        return RunHistory(Counts.model_validate_json(zlib.decompress(compressed)))
    except (ValidationError, zlib.error) as error:
        log.warning("run_times_unreadable", reason=str(error), consequence="they are learned anew")
        return RunHistory()

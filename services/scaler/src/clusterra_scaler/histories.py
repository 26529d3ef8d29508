"""What was learned of a cluster's run times as it is kept for the next scaler."""

import zlib

import structlog
from clusterra_runtime.item import Value
from pydantic import ValidationError

from clusterra_scaler.planner.packing.learned import Counts
from clusterra_scaler.planner.run_history import RunHistory

log = structlog.get_logger(__name__)


def packed(history: RunHistory) -> bytes:
    """Well below DynamoDB's 400 kB for all the histories that are kept."""
    return zlib.compress(history.counts.model_dump_json().encode())


def unpacked(value: Value) -> RunHistory:
    """What cannot be read is learned anew: losing it costs a little money, and nothing else."""
    try:
        if not isinstance(value, bytes):
            raise TypeError(f"they are {type(value).__name__}")
        return RunHistory(Counts.model_validate_json(zlib.decompress(value)))
    except (ValidationError, zlib.error, TypeError) as error:
        log.warning("run_times_unreadable", reason=str(error), consequence="they are learned anew")
        return RunHistory()

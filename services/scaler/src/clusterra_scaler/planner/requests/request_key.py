"""Names what a job asks for, so that equal requests are recognised from snapshot to snapshot."""

from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from clusterra_contracts.demand import Part

from clusterra_scaler.planner.requests.demand import Demand

_DIGEST_BYTES = 12


def request_key(demand: Demand) -> str:
    """A digest of the user and of everything that a demand's jobs ask for. The same in every process.

    Jobs that differ only in what no snapshot tells, such as `--ntasks-per-socket`, have the same key.
    """
    return _digest(demand.uid, demand.parts, demand.limit_seconds, demand.extra)


# A decision asks several times for each demand, and the next decision asks for the same.
@lru_cache(maxsize=20_000)
def _digest(uid: int, parts: tuple[Part, ...], limit_seconds: float | None, extra: str) -> str:
    needs = [
        (replace(part.need, excluded_nodes=frozenset()), sorted(part.need.excluded_nodes), part.nodes) for part in parts
    ]
    asked = repr((uid, needs, limit_seconds, extra))
    return blake2b(asked.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def job_number(job_id: str) -> int:
    """The number of a job, or of the array of a task. Slurm gives later jobs higher numbers."""
    return int(job_id.partition("_")[0])


def last_number(demand: Demand) -> int:
    """The number of the demand's latest job."""
    return max(map(job_number, demand.job_ids))

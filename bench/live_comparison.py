"""Compares what a trace cost on the lab with what the simulator says of the same jobs."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from clusterra_contracts.registry import ScalingPolicy
from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.figures import bound_usd
from clusterra_planner_tools.simulate.result import JobRun, WorkerRun
from clusterra_planner_tools.simulate.simulation import Options, simulate
from clusterra_planner_tools.simulate.trace import Job, Trace
from clusterra_scaler.planner.packing.settings import Settings
from simulated_bill import PURPOSES, simulated_bill


@dataclass(frozen=True)
class Life:
    """A worker from its start to its end."""

    shape: str
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """For how long it existed."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Live:
    """What happened on the lab. Amounts are in USD by the purpose of the ledger's rows."""

    usd: dict[str, float]
    jobs: tuple[Job, ...]
    """As they were submitted and ran. Times are in seconds of the lab's clock, from the first submit."""
    runs: tuple[JobRun, ...]
    boot_seconds: float
    workers: tuple[Life, ...]


def compared(live: Live, catalogue: Catalogue, policy: ScalingPolicy) -> dict[str, object]:
    """All figures of the run."""
    booting = Catalogue(
        tuple(replace(each, boot_seconds=live.boot_seconds) for each in catalogue.offerings), catalogue.shapes
    )
    options = Options(
        policy.name,
        settings=Settings(batch_seconds=policy.gather_seconds),
        keep_alive=policy.idle_seconds,
        wait_usd_per_hour=policy.wait_usd_per_hour,
    )
    simulation = simulate(Trace(Path("lab"), live.jobs), booting, options)
    simulated = simulated_bill(simulation.result, booting)
    live_usd, simulated_usd = sum(live.usd.values()), simulation.figures.cost_usd
    bound = bound_usd(live.runs, booting)
    print(f"{'':16}{'live':>12}{'simulated':>12}{'difference':>12}  USD")
    for purpose in PURPOSES:
        difference = live.usd[purpose] - simulated[purpose]
        print(f"{purpose:16}{live.usd[purpose]:12.6f}{simulated[purpose]:12.6f}{difference:12.6f}")
    print(f"{'bill':16}{live_usd:12.6f}{simulated_usd:12.6f}{live_usd - simulated_usd:12.6f}")
    print(f"{'bound':16}{bound:12.6f}")
    _print_shapes(live.workers, simulation.result.workers)
    return {
        "live_over_simulated": round(live_usd / simulated_usd, 4),
        "live_over_bound": round(live_usd / bound, 4),
        "jobs": len(live.jobs),
        "live_usd": round(live_usd, 6),
        "simulated_usd": round(simulated_usd, 6),
        "bound_usd": round(bound, 6),
        "live": {purpose: round(usd, 6) for purpose, usd in live.usd.items()},
        "difference": {
            "job_shares" if purpose == "job" else purpose: round(live.usd[purpose] - simulated[purpose], 6)
            for purpose in PURPOSES
        },
        "boot_seconds": round(live.boot_seconds, 3),
        "workers": len(live.workers),
        "simulated_workers": simulation.figures.worker_starts,
    }


def _print_shapes(live: Iterable[Life], simulated: Iterable[WorkerRun]) -> None:
    """How many workers of each shape there were, and for how many seconds together."""
    lived, simulated_seconds = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for life in live:
        lived[life.shape].append(life.seconds)
    for run in simulated:
        simulated_seconds[run.shape].append(run.release - run.launch)
    print(f"{'workers':16}{'live':>12}{'s':>10}{'simulated':>12}{'s':>10}")
    for shape in sorted(lived.keys() | simulated_seconds.keys()):
        columns = (f"{len(each[shape]):12}{sum(each[shape]):10.0f}" for each in (lived, simulated_seconds))
        print(f"{shape:16}{''.join(columns)}")

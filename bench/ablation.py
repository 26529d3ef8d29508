"""Measures what each part of the packing earns: simulated bills with one part at a time switched off.

Plays two synthetic traces with the shipped shapes, and the first 3,000 jobs of a given trace, in four settings: as
shipped, with gathering, with gathering and run times that are known beforehand, and with caps of three quarters of what
the whole planner uses at its peak. Then packs small
random queues of jobs that all run for four hours; there the bill is the price of the workers per hour. A part is
switched off by replacing it for a run.

Prints a table row for each run and, last, one JSON line: for each trace or queue, setting and part the bill, its
difference from that of the whole planner in percent, the mean wait, and the CPU seconds of the run.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from capped_policy import CappedPolicy, Caps
from clusterra_planner_tools.simulate import catalogue as catalogues
from clusterra_planner_tools.simulate import trace as traces
from clusterra_planner_tools.simulate.catalogue import CatalogueUnreadable
from clusterra_planner_tools.simulate.figures import figures
from clusterra_planner_tools.simulate.packing_policy import PackingPolicy
from clusterra_planner_tools.simulate.simulation import NothingFits, fitting
from clusterra_planner_tools.simulate.world import World
from clusterra_scaler.planner.estimates.remaining_time import certain
from clusterra_scaler.planner.estimates.run_time_model import RunTimeModel
from clusterra_scaler.planner.estimates.run_times import KnownRunTimes, RunTimes
from clusterra_scaler.planner.estimates.settings import LearningSettings
from clusterra_scaler.planner.packing import local_search, pack
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from random_queues import HOUR, small
from synthetic_trace import lines

JOBS = 3_000
QUEUES = 200
WAIT_USD_PER_HOUR = 4.0
GATHER_SECONDS = 30.0
RUN_SECONDS = 4 * HOUR
SHIPPED = Path(__file__).parents[1] / "catalog" / "shapes.yaml"
SYNTHETIC: Mapping[str, tuple[int, float, int]] = {
    "synthetic": (30, 2_000.0, 1),
    "synthetic, dense": (8, 10_000.0, 2),
}
"""Users, jobs per day and seed."""
WHOLE, PREDICATE = "nothing", "placement predicate"


def nothing(*_: object) -> None:
    """Replaces a step that changes what it is given."""


REPLACED: dict[str, Sequence[tuple[object, str, object]]] = {
    WHOLE: (),
    "local search": ((pack, "improve", nothing),),
    "bundles in local search": ((local_search, "buy_bundles", nothing),),
    "slot price": ((pack, "slot_prices", lambda *_: ()), (pack, "downsize", nothing)),
    PREDICATE: ((PackingPolicy, "accepts", lambda *_: True),),
}
"""By what is switched off, what is replaced: object, attribute, and by what."""
COLUMNS = "{:18} {:12} {:26} {:>11} {:>9} {:>10} {:>8}"
HEADINGS = ("trace", "setting", "without", "bill", "change", "wait mean", "took")


@dataclass(frozen=True, slots=True)
class Scene:
    """A trace and how it is played."""

    trace: str
    file: Path
    shapes: Path
    setting: str
    batch_seconds: float = 0.0
    capped: bool = False
    known: bool = False
    """Whether run times are known beforehand, else learned."""


@dataclass(frozen=True, slots=True)
class Bill:
    """The outcome of a run: USD, mean wait in seconds, CPU seconds of the run."""

    usd: float
    wait_mean: float
    seconds: float


@contextmanager
def without(part: str) -> Iterator[None]:
    """Switch a part off."""
    with ExitStack() as replaced:
        for target, name, by in REPLACED[part]:
            replaced.enter_context(patch.object(target, name, by))
        yield


def simulated(scene: Scene, part: str) -> Bill:
    """The bill of a trace. Caps are three quarters of the peak of the whole planner without caps."""
    catalogue = catalogues.read(scene.shapes)
    jobs = fitting(traces.read(scene.file, "auto", catalogue.most_cpus), catalogue)[0][:JOBS]
    settings = replace(Settings(), batch_seconds=scene.batch_seconds)

    def policy(caps: Caps | None) -> PackingPolicy:
        known = KnownRunTimes({str(job.id): job.run_seconds for job in jobs})
        run_times: RunTimes = known if scene.known else RunTimeModel(LearningSettings())
        if caps is None:
            return PackingPolicy(catalogue, run_times, settings, WAIT_USD_PER_HOUR)
        return CappedPolicy(catalogue, run_times, settings, WAIT_USD_PER_HOUR, caps)

    caps = Caps.below_peak(World(jobs, policy(None)).run(), jobs, catalogue) if scene.capped else None
    with without(part):
        began = time.process_time()
        result = World(jobs, policy(caps)).run()
        seconds = time.process_time() - began
    found = figures(result, jobs, catalogue)
    if found.violations:
        raise SystemExit(f"{scene}, {part}: {found.violations[0].what} ({found.violations[0].where})")
    return Bill(found.cost_usd, found.wait_mean, seconds)


def small_queues(part: str) -> Bill:
    """The price per hour of the workers bought for small random queues of equally long jobs."""
    usd = seconds = 0.0
    for seed in range(QUEUES):
        jobs, offerings = small(seed)
        groups = [Group((str(n),), cpus, gib, certain(RUN_SECONDS)) for n, (cpus, gib) in enumerate(jobs)]
        with without(part):
            began = time.process_time()
            packing = pack.pack(groups, [], offerings, Settings())
            seconds += time.process_time() - began
        usd += sum(each.offering.usd_per_second for each in packing.purchases) * HOUR
    return Bill(usd, 0.0, seconds)


def scenes(folder: Path, trace: Path | None, shapes: Path) -> Iterator[Scene]:
    """Each trace in each setting. Writes the synthetic traces to the folder."""
    files: list[tuple[str, Path, Path]] = []
    for name, (users, jobs_per_day, seed) in SYNTHETIC.items():
        file = folder / f"{seed}.swf"
        file.write_text("".join(lines(JOBS, users, jobs_per_day, seed)), encoding="utf-8")
        files.append((name, file, SHIPPED))
    if trace is not None:
        files.append((trace.stem, trace, shapes))
    for name, file, catalogue in files:
        yield Scene(name, file, catalogue, "as shipped")
        yield Scene(name, file, catalogue, "gathering", batch_seconds=GATHER_SECONDS)
        yield Scene(name, file, catalogue, "known times", batch_seconds=GATHER_SECONDS, known=True)
        yield Scene(name, file, catalogue, "caps", capped=True)


def ablated(all_scenes: Sequence[Scene]) -> list[dict[str, object]]:
    """The results, printed as a table."""
    print(COLUMNS.format(*HEADINGS), flush=True)
    found: list[dict[str, object]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        runs = [
            (scene.trace, scene.setting, [(part, pool.submit(simulated, scene, part)) for part in REPLACED])
            for scene in all_scenes
        ]
        in_packing = [part for part in REPLACED if part != PREDICATE]
        runs.append(("small queues", "at once", [(part, pool.submit(small_queues, part)) for part in in_packing]))
        for trace, setting, of_parts in runs:
            whole = of_parts[0][1].result()
            for part, future in of_parts:
                bill = future.result()
                change = 100.0 * (bill.usd / whole.usd - 1.0)
                print(row(trace, setting, part, bill, change), flush=True)
                found.append(
                    {
                        "trace": trace,
                        "setting": setting,
                        "without": part,
                        "usd": round(bill.usd, 2),
                        "change_percent": round(change, 2),
                        "wait_mean": round(bill.wait_mean, 1),
                        "seconds": round(bill.seconds, 1),
                    }
                )
    return found


def row(trace: str, setting: str, part: str, bill: Bill, change: float) -> str:
    return COLUMNS.format(
        trace,
        setting,
        part,
        f"{bill.usd:.2f} USD",
        f"{change:+.2f} %",
        f"{bill.wait_mean:.1f} s",
        f"{bill.seconds:.1f} s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="a further trace in the Standard Workload Format")
    parser.add_argument("--shapes", type=Path, default=SHIPPED, help="its YAML with a list `shapes`")
    arguments = parser.parse_args()
    if arguments.trace is None:
        print("no TRACE is given: the synthetic traces alone are run")
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = ablated(list(scenes(Path(folder), arguments.trace, arguments.shapes)))
        except (traces.TraceUnreadable, CatalogueUnreadable, NothingFits) as error:
            raise SystemExit(str(error)) from None
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Measures the planner's speed and memory, and compares its plans with the cheapest ones.

- 10,000 pending jobs of 2,000 resource vectors against 45 offerings: all jobs new (`cold`), and 100 more jobs of 20
  vectors while the workers for the others are booting (`incremental`). `cold` and `incremental` time only the packing;
  `decide_cold` and `decide_again` time the whole decision from observation to desired state; `decide_beside` does so
  with 500 workers, each with a quarter of its CPUs free; `decide_at_quota` with 50,000 jobs of 5,000 vectors, 5,000
  such workers and a quota of 500 more.
- 1,000 clusters, each with a snapshot every five seconds: the share of a core that decoding and deciding takes.
- 200 small random queues: the price of the bought workers against a proved optimum, and against first fit.

Prints progress on stderr and, last, one JSON line. Times are CPU milliseconds of the process; memory is the peak of a
separate process. Other figures show how much the machine contributed to a p99: `wall_p99_ms` is the elapsed time,
which includes other processes; `collected_p99_ms` is the garbage collector's share. Other users slow a shared machine
down for seconds, so `steady` has only the runs during which the machine was nearly at its fastest, by a plain loop of
100,000 additions before and after each run. `loop_ms` is the time of ten such loops, to compare machines.
"""

import argparse
import json
import multiprocessing
import random
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import yaml
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.slurm_nodes import SetExtra
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.interpreter import collect_seldom
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.planner.packing.bins import Bin, cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.pack import pack
from clusterra_scaler.planner.packing.settings import Settings
from long_queue import LongQueue
from plan_quality import against_optimum
from random_queues import OFFERINGS, queue
from small_fleets import START, edge_of, fleet, snapshot
from stopwatch import Clock, loop_ms, peak_mib

VECTORS, JOBS = 2_000, 10_000
NEW_VECTORS, NEW_JOBS = 20, 100
WORKERS = 500
MOST_VECTORS, MOST_JOBS, MOST_WORKERS = 5_000, 50_000, 5_000
CLUSTERS = 1_000
SNAPSHOT_SECONDS = 5.0
CATALOGUE = Path(__file__).parents[1] / "catalog" / "shapes.yaml"


def print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def cold(runs: int) -> dict[str, object]:
    """Time the packing with only new jobs; every tenth run has another queue."""
    clock = Clock()
    groups: list[Group] = []
    for run in range(runs):
        if run % 10 == 0:
            groups = queue("job", VECTORS, JOBS, random.Random(run))
        with clock():
            packing = pack(groups, [], OFFERINGS, Settings())
    placed = sum(each.usd for each in packing.placements)
    one_per_job = 0.0
    for group in groups:
        new = cheapest_new_worker(group, OFFERINGS, Settings())
        one_per_job += new[0] * group.nodes * len(group.job_ids) if new is not None else 0.0
    return {
        **clock.figures(),
        "peak_mib": peak_mib(),
        "workers": len(packing.purchases),
        "of_one_worker_per_job": round(placed / one_per_job, 4),
        "loop_ms": loop_ms(),
    }


def incremental(runs: int) -> dict[str, object]:
    """Time the packing of a few more jobs while workers with booked jobs are booting."""
    chance = random.Random(1)
    groups = queue("job", VECTORS, JOBS, chance)
    packing = pack(groups, [], OFFERINGS, Settings())
    jobs = {job_id: group for group in groups for job_id in group.job_ids}
    fleet_bins = {each.id: Bin.of(each.id, each.offering) for each in packing.purchases}
    for placement in packing.placements:
        for bin_id in placement.bin_ids:
            fleet_bins[bin_id].add(jobs[placement.job_id])
    coming = list(fleet_bins.values())
    clock = Clock()
    for run in range(runs):
        new = queue(f"new-{run}", NEW_VECTORS, NEW_JOBS, chance)
        with clock():
            pack(new, coming, OFFERINGS, Settings())
    return {**clock.figures(), "peak_mib": peak_mib(), "open_workers": len(coming), "loop_ms": loop_ms()}


def decide_cold(runs: int) -> dict[str, object]:
    """Time the whole decision (demand to reasons) with only new jobs; every tenth run has another queue."""
    clock = Clock()
    for run in range(runs):
        if run % 10 == 0:
            observation = LongQueue.of(VECTORS, JOBS, random.Random(run)).observation()
            history = RunHistory()
            history.observe(observation.snapshot)
        with clock():
            decision = decide(observation, FleetState.initial(START), ObservationHistory(), history)
    bought = 0 if decision.plan is None else sum(decision.plan.new.values())
    return {**clock.figures(), "peak_mib": peak_mib(), "workers": bought, "loop_ms": loop_ms()}


def decide_again(runs: int) -> dict[str, object]:
    """Time the whole decision while all workers boot: `same` without any change, `more` with a few more jobs."""
    long_queue = LongQueue.of(VECTORS, JOBS, random.Random(1))
    first, history = long_queue.observation(), RunHistory()
    history.observe(first.snapshot)
    decided = decide(first, FleetState.initial(START), ObservationHistory(), history)
    long_queue.boot(decided.state)
    observation = long_queue.observation()
    decided = decide(observation, decided.state, decided.observation_history, history)
    same, more = Clock(), Clock()
    for _ in range(runs):
        with same():
            decide(observation, decided.state, decided.observation_history, history)
        later = long_queue.with_more(NEW_VECTORS, NEW_JOBS)
        history.observe(later.snapshot)
        with more():
            decide(later, decided.state, decided.observation_history, history)
    return {"same": same.figures(), "more": more.figures(), "peak_mib": peak_mib(), "loop_ms": loop_ms()}


def decide_beside(runs: int) -> dict[str, object]:
    """Time the whole decision with only new jobs and many workers that have capacity for a few of them."""
    long_queue = LongQueue.of(VECTORS, JOBS, random.Random(1))
    state, history = long_queue.add_busy_workers(WORKERS), RunHistory()
    observation = long_queue.observation()
    history.observe(observation.snapshot)
    clock = Clock()
    for _ in range(runs):
        with clock():
            decision = decide(observation, state, ObservationHistory(), history)
    closed = sum(isinstance(action, SetExtra) for action in decision.actions)
    return {**clock.figures(), "peak_mib": peak_mib(), "workers": WORKERS, "closed": closed, "loop_ms": loop_ms()}


def decide_at_quota(runs: int) -> dict[str, object]:
    """Time the whole decision for a large cluster whose quota leaves most jobs without workers."""
    long_queue = LongQueue.of(MOST_VECTORS, MOST_JOBS, random.Random(1))
    state, history = long_queue.add_busy_workers(MOST_WORKERS), RunHistory()
    long_queue.most_workers = MOST_WORKERS + WORKERS
    observation = long_queue.observation()
    history.observe(observation.snapshot)
    clock = Clock()
    for _ in range(runs):
        with clock():
            decision = decide(observation, state, ObservationHistory(), history)
    unmet = 0 if decision.plan is None else sum(each.count for each in decision.plan.unmet)
    return {**clock.figures(), "peak_mib": peak_mib(), "workers": MOST_WORKERS, "unmet": unmet, "loop_ms": loop_ms()}


def clusters(rounds: int) -> dict[str, object]:
    """Time decoding a snapshot and deciding for each cluster, like its control loop without store and bus."""
    chance = random.Random(1)
    catalogue = Catalogue.model_validate(yaml.safe_load(CATALOGUE.read_text(encoding="utf-8")))
    binding = ClusterBinding(
        name="c1",
        slurmrestd_url="http://127.0.0.1:6820",
        jwt_key="file:/dev/null",
        operator=SlurmUser(name="clusterra-operator", uid=64031, gid=64031),
        catalogue=catalogue,
    )
    fleets = [(fleet(catalogue, chance), ObservationHistory()) for _ in range(CLUSTERS)]
    clock = Clock()
    sizes: list[int] = []
    for number in range(1, rounds + 1):
        now = START + timedelta(seconds=number * SNAPSHOT_SECONDS)
        for index, (state, observation_history) in enumerate(fleets):
            message = snapshot(state, number, now, catalogue, chance).model_dump_json().encode()
            edge = edge_of(state, number, now)

            with clock():
                observation = Observation(binding, QueueSnapshot.model_validate_json(message), edge, now)
                decision = decide(observation, state, observation_history)
            fleets[index] = decision.state, decision.observation_history
            sizes.append(len(message))
    share = clock.total_ms / rounds / (SNAPSHOT_SECONDS * 1e3)
    return {
        **clock.figures(),
        "policy": binding.policy.name,
        "core_share": round(share, 3),
        "snapshot_bytes": round(statistics.mean(sizes)),
        "peak_mib": peak_mib(),
        "loop_ms": loop_ms(),
    }


def in_process(measurement: Callable[..., dict[str, object]], *arguments: float) -> dict[str, object]:
    """Run a measurement in a separate process, which collects garbage like the scaler."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=collect_seldom) as pool:
        return pool.submit(measurement, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="runs with the big queue")
    parser.add_argument("--rounds", type=int, default=5, help="snapshots of each cluster")
    parser.add_argument("--instances", type=int, default=200, help="small queues compared with their optimum")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit for proving an optimum")
    arguments = parser.parse_args()
    found: dict[str, object] = {"vectors": VECTORS, "jobs": JOBS, "offerings": len(OFFERINGS)}
    for name, measurement, *amounts in (
        ("cold", cold, arguments.runs),
        ("incremental", incremental, 2 * arguments.runs),
        ("decide_cold", decide_cold, max(1, arguments.runs // 2)),
        ("decide_again", decide_again, max(1, arguments.runs // 2)),
        ("decide_beside", decide_beside, max(1, arguments.runs // 4)),
        ("decide_at_quota", decide_at_quota, max(1, arguments.runs // 20)),
        ("clusters", clusters, arguments.rounds),
        ("against_optimum", against_optimum, arguments.instances, arguments.seconds),
    ):
        print_progress(f"{name} ...")
        found[name] = in_process(measurement, *amounts)
        print_progress(f"  {json.dumps(found[name])}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

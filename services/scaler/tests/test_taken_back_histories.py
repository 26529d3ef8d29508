"""Simulated histories in which drains are undone and the edge is held up: victims are taken back, no job is lost.

`queue_world.World` asserts in each step that no worker is removed under a job, that none is removed which the newest
desired state keeps, and that no decision leaves a victim that Slurm shows in use.
"""

import os
import sys
from collections import Counter
from functools import partial
from random import Random

import pytest
from clusterra_contracts.identity import WorkerName
from clusterra_contracts.scale import DesiredState
from clusterra_scaler.planner.observed import context
from edge_model import EdgeBehaviour
from fleet_examples import binding
from queue_world import Faults, World
from slurm_model import Job

SEEDS = int(os.environ.get("HISTORIES_SEEDS", "3"))
"""Number of histories, each by a seed; `make test-histories` plays 30."""
UNDONE = Faults(resumed=0.05, lost_drains=0.02, held=0.3, lost_snapshot=0.3, late_desired=0.3, takeover=0.01)
FAULTY_SECONDS = 200
MAX_SECONDS = 3000


def history(seed: int, faults: Faults = UNDONE) -> World:
    """A queue of short jobs, with which workers are drained, named and needed again all the time."""
    random = Random(seed)
    jobs = [
        Job(
            submitted=random.randint(0, FAULTY_SECONDS),
            cpus=random.randint(1, 2),
            memory_mib=100,
            nodes=random.choice((1, 1, 1, 2)),
            runs=random.randint(1, 12),
        )
        for _ in range(60)
    ]
    policy = binding(idle_seconds=0, max_workers=random.randint(2, 6), boot_timeout_seconds=25, ghost_seconds=30)
    return World(jobs, policy, random, faults, EdgeBehaviour(boot_seconds=(1, 6)))


def test_no_job_is_lost_while_drains_are_undone_and_the_edge_is_held_up() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = history(seed)
        world.run(FAULTY_SECONDS, MAX_SECONDS)
        counts.update(
            jobs=len(world.slurm.jobs),
            undone_drains=world.slurm.undone,
            taken_back=world.taken_back,
            removed=world.removed,
            held_up=world.edge.held,
            outdated_removals=world.edge.outdated,
            refused_removals=world.edge.refused,
        )

    print(f"{SEEDS} histories: {dict(counts)}", file=sys.stderr)

    assert counts["undone_drains"] > SEEDS
    assert counts["taken_back"] > SEEDS
    assert counts["outdated_removals"] > 0
    assert counts["removed"] > SEEDS


def test_the_histories_notice_victims_that_stay_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they would prove nothing."""

    def never(*_: object) -> frozenset[WorkerName]:
        return frozenset()

    monkeypatch.setattr(context, "taken_back", never)

    with pytest.raises(AssertionError, match="are not drained or busy"):
        history(1).run(FAULTY_SECONDS, MAX_SECONDS)


def test_the_histories_notice_an_edge_that_removes_what_a_newer_state_took_back() -> None:
    def run_with_an_outdated_edge() -> None:
        for seed in range(30):
            world = history(seed)
            world.edge.look_again = partial(received_by, world)
            world.run(FAULTY_SECONDS, MAX_SECONDS)

    def received_by(world: World) -> DesiredState:
        return world.edge.received or world.stored.desired()

    with pytest.raises(AssertionError, match="although it is no victim any more"):
        run_with_an_outdated_edge()

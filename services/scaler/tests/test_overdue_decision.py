"""A cluster whose decision was given up is decided again, from its last snapshot, after a pause."""

import json
import sys
from pathlib import Path

import aiohttp
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import start, until
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import put_binding
from fleet_examples import binding, group
from stand_ins import neighbours

OVERDUE = 2
SCALER = f"""
from itertools import chain, repeat
import clusterra_scaler.decisions.lanes as lanes
import clusterra_scaler.cluster_runner as cluster_runner
from clusterra_scaler.app import main

time_limit, limits = lanes.time_limit, chain([0.0] * {OVERDUE}, repeat(60.0))
lanes.time_limit = lambda _: time_limit(next(limits))
cluster_runner.OVERDUE_SECONDS = 1.0
main()
"""
"""A scaler whose first decisions take too long, and whose pause after that is shorter."""


async def exported(log: Path) -> str:
    """The metrics of the scaler with this log."""
    [starting] = [json.loads(line) for line in log.read_text().splitlines() if '"service_starting"' in line]
    async with aiohttp.ClientSession() as http, http.get(f"http://{starting['health']}/metrics") as answer:
        return await answer.text()


async def test_a_decision_that_was_given_up_is_made_again_after_a_pause(
    environment: dict[str, str], client: Client, ref: ClusterRef, tmp_path: Path
) -> None:
    await put_binding(client, ref, binding(name="packing", max_workers=1000))
    log = tmp_path / "scaler.log"
    async with neighbours(client, ref) as cluster:
        cluster.pending = tuple(group(str(number), memory_per_node_mib=1024 + number) for number in range(1, 101))
        await cluster.publish_snapshot()
        await cluster.publish_heartbeat()
        process = await start("scaler", [sys.executable, "-c", SCALER], log=log, env=environment)
        try:

            async def desired() -> DesiredState | None:
                return await cluster.last_desired()

            state = await until(desired, seconds=60, every=0.1, what="a desired state", process=process)
            metrics = await exported(log)
        finally:
            await process.stop()

    assert log.read_text().count("decision_overdue") == OVERDUE
    failures = f'failures_total{{cluster="{ref.cluster}",reason="overdue",tenant="{ref.tenant}"}} {OVERDUE}.0'
    assert failures in metrics
    assert "controller_failed" not in log.read_text()
    assert sum(target.replicas for target in state.targets or ()) > 0

"""What one proxy costs for one big cluster: `python bench/proxy_load.py`. Prints one JSON line.

Real NATS and a real proxy process. slurmrestd is the stand-in of `bench/fleet`, which answers in recorded shapes. Once
a second a running job ends, a waiting one takes its place, and another is submitted.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import QueueSnapshot
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.settings import ServiceSettings
from fleet.changes import Changes
from fleet.clusters import TENANT, Size, binding, standing
from fleet.http_server import http_server
from fleet.recorded import Answers
from fleet.slurmrestd import StandIn
from fleet.use import _cpu_seconds
from nats.aio.msg import Msg

NAME = "big"
PROBE_SECONDS = 0.02


async def measure(size: Size, seconds: float, folder: Path) -> dict[str, object]:
    """Run the proxy beside the stand-in, and return what it used after it had read everything once."""
    ref = ClusterRef(tenant=TENANT, cluster=NAME)
    answers = Answers()
    queue = standing(ref, size, answers, int(time.time())).queue
    changes = Changes({NAME: queue}, 1.0)
    stand_in = StandIn(answers, lambda _: None)
    stand_in.queues[NAME] = queue
    key = folder / "jwt.key"
    key.write_bytes(b"k" * 32)
    snapshots: list[int] = []
    told: list[bool] = []
    async with nats_server(folder / "nats") as nats, http_server(stand_in.handle) as url:
        client = await bus.connect(ServiceSettings(nats_url=nats.url), "bench")

        async def collect(message: Msg) -> None:
            snapshots.append(len(message.data))
            # A large queue is told in parts, on subjects of their own.
            in_parts = message.subject.startswith("job.part.")
            told.append(in_parts or decode(QueueSnapshot, message.data, message.headers).running is not None)

        try:
            await topology.apply(client)
            for subject in (subjects.job_pending(ref), f"job.part.{ref.tenant}.{ref.cluster}.>"):
                await client.subscribe(subject, cb=collect)
            await put_binding(client, ref, binding(ref, url, str(key), size.nodes))
            log = folder / "proxy.log"
            proxy = await start("proxy", [sys.executable, "-m", "clusterra_proxy"], log=log, env=nats.environment())
            await until(lambda: any(told), seconds=600, what="the first snapshot of the jobs", process=proxy)
            running = asyncio.create_task(changes.turn_over(NAME))
            await asyncio.sleep(15)
            process = psutil.Process(proxy.pid)
            cpu, began, requests, first = (
                _cpu_seconds(process),
                time.monotonic(),
                dict(stand_in.requests),
                len(snapshots),
            )
            own = _cpu_seconds(process) - process.cpu_times().children_user - process.cpu_times().children_system
            delays = await _probe(json_health(log), seconds)
            took = time.monotonic() - began
            times = process.cpu_times()
            result = {
                "jobs": size.pending + size.running,
                "nodes": size.nodes,
                "seconds": round(took),
                "cpu_percent": round(100 * (_cpu_seconds(process) - cpu) / took, 1),
                "own_cpu_percent": round(100 * (times.user + times.system - own) / took, 1),
                "rss_mib": round(process.memory_info().rss / 2**20),
                "snapshot_messages_per_second": round((len(snapshots) - first) / took, 2),
                "snapshot_bytes_per_second": round(sum(snapshots[first:]) / took),
                "requests": {kind: count - requests.get(kind, 0) for kind, count in stand_in.requests.items()},
                "loop_delay_ms_max": round(1000 * max(delays)),
                "loop_delay_ms_p99": round(1000 * sorted(delays)[int(0.99 * len(delays))]),
            }
            running.cancel()
            await proxy.stop(20)
            return result
        finally:
            with suppress(TimeoutError):
                await bus.close(client)


def json_health(log: Path) -> str:
    """The address of the proxy's health server, which its log names."""
    for line in log.read_text().splitlines():
        if '"service_starting"' in line:
            return str(json.loads(line)["health"])
    raise LookupError("the proxy's log does not name its health server")


async def _probe(health: str, seconds: float) -> list[float]:
    """How long readiness takes, which is decided on the proxy's event loop."""
    delays = []
    end = time.monotonic() + seconds
    async with aiohttp.ClientSession() as http:
        while time.monotonic() < end:
            began = time.monotonic()
            async with http.get(f"http://{health}/readyz") as answer:
                await answer.read()
            delays.append(time.monotonic() - began)
            await asyncio.sleep(PROBE_SECONDS)
    return delays


def main() -> None:
    """Read the size and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=40_000)
    parser.add_argument("--running", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = Size(given.pending, given.running, given.nodes)
        print(json.dumps(asyncio.run(measure(size, given.seconds, Path(folder)))))


if __name__ == "__main__":
    main()

"""The whole lab with NATS in operator mode, as in production: every service and the edge-agent have their own login."""

import asyncio
import gzip
import re

import nats.errors
import pytest
from aiohttp import ClientSession
from clusterra_contracts.bus import sharing
from clusterra_contracts.bus.envelope import CONTENT_ENCODING, GZIP
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus
from session_client import asked, entered, place, until_ready

CLUSTER = ClusterRef(tenant="acme", cluster="main")
GARBAGE = gzip.compress(b'{"workers":[' + b"1," * 1_000_000 + b"1]}")
JOB = {"name": "hello", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
SCRIPT = "#!/bin/bash\necho hello from $SLURMD_NODENAME\n"


_SERVER = """\
#!/usr/bin/python3
# Stands in for `jupyter lab`: it tells its port as Jupyter does, and serves one page.
import http.server, os, pathlib

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from a session")

server = http.server.HTTPServer(("127.0.0.1", 0), Page)
told = pathlib.Path(os.environ["JUPYTER_RUNTIME_DIR"], "jpserver-1.json")
told.write_text('{"port": %d}' % server.server_port)
server.serve_forever()
"""


async def served_by_a_session(lab: Stack, user: User) -> str:
    """What a session serves to the browser of its owner."""
    command = lab.slurm.shared_dir / "page" / "bin" / "jupyter"
    command.parent.mkdir(parents=True)
    command.write_text(_SERVER)
    command.chmod(0o755)
    params = {"environment": f"{lab.slurm.shared_path}/page", "cpus": 1, "memory_gib": 1, "hours": 1}
    started = await asked(user, "POST", place(user), {"template_id": "jupyter", "params": params}, status=201)
    await until_ready(user, started["job_id"])
    async with ClientSession() as browser, browser.get(await entered(user, browser, started["job_id"])) as answer:
        served = await answer.text()
    await asked(user, "DELETE", place(user, started["job_id"]), status=204)
    return served


@pytest.fixture
def lab(production_lab: Stack) -> Stack:
    return production_lab


async def test_a_job_runs_and_its_worker_goes_while_all_log_in_by_credentials(lab: Stack) -> None:
    async with lab.user("ada@acme.example") as ada:
        job = await ada.submit(SCRIPT, JOB)

        async def done() -> bool:
            return (await ada.job(job.job_id)).state == "COMPLETED"

        await until(done, seconds=120, what="the end of the job")

        assert "hello from general-xs" in await ada.output(job.job_id)

        async def archived() -> bool:
            return bool(await ada.history("job.completed"))

        await until(archived, seconds=60, what="the event in the archive")

        assert await served_by_a_session(lab, ada) == "hello from a session"

        agent = await bus.connect(lab.nats.settings("edge-agent"), "test", inbox_prefix="_EDGE.acme.main")
        with pytest.raises(nats.errors.TimeoutError):
            await agent.request("$JS.API.DIRECT.GET.EVENT", b'{"seq":1}', timeout=1)
        await bus.close(agent)

        async def told() -> bool:
            return bool(await ada.history("worker.started")) and bool(await ada.history("worker.stopped"))

        await until(told, seconds=60, what="the events of the worker in the archive")

        for service in lab.services.values():
            denials = re.findall(r"permissions violation[^\"]*", service.log.read_text())
            assert not denials, (service.log, denials)


async def test_a_job_goes_its_way_while_a_login_of_the_edge_floods_events_and_dead_letters(lab: Stack) -> None:
    async with lab.user("ada@acme.example") as ada:
        agent = await bus.connect(lab.nats.settings("edge-agent"), "test", inbox_prefix="_EDGE.acme.main")
        # Not its heartbeats: those are full states, and garbage in their place takes its own cluster away.
        may = [local for local in sharing.services_for_agent(CLUSTER) if local.startswith(("event.", "dlq."))]

        async def flood() -> None:
            while True:
                for subject in may:
                    for _ in range(100):
                        await agent.publish(subject, GARBAGE, headers={CONTENT_ENCODING: GZIP})
                await agent.flush(timeout=60)

        flooding = asyncio.create_task(flood())
        try:
            job = await ada.submit(SCRIPT, JOB)

            async def done() -> bool:
                return (await ada.job(job.job_id)).state == "COMPLETED"

            await until(done, seconds=120, what="the end of the job")
            assert not flooding.done()
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
            await bus.close(agent)

        for service in lab.services.values():
            assert service.log.read_text().count("dead_letter") < 500, service.log

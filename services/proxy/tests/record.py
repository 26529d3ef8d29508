"""`python record.py`: record a real slurmrestd's answers in each supported version into `recorded/`.

It starts a cluster of the lab, so it needs root. Run it when a version is added or Slurm is upgraded. `test_versions`
reads the recorded answers.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
from clusterra_lab.machine.process import until
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from slurm_world import SlurmWorld, slurm_world

RECORDED = Path(__file__).parent / "recorded"
SCRIPT = "#!/bin/sh\nsleep 0.2\nexit ${SLURM_ARRAY_TASK_ID:-0}\n"


class Recorder:
    """Sends requests to one version and collects the answers by name."""

    def __init__(self, http: aiohttp.ClientSession, world: SlurmWorld, version: Version) -> None:
        self._http = http
        self._world = world
        self._version = version
        self.answers: dict[str, Any] = {}

    async def ask(self, method: str, path: str, body: object = None, *, token: str | None = None) -> Any:
        """Send a request and return its answer, parsed as JSON."""
        headers = {"X-SLURM-USER-TOKEN": token or self._world.token(self._world.operator)}
        async with self._http.request(method, path, json=body, headers=headers) as answer:
            text = await answer.text()
            content = json.loads(text, object_hook=_without_machine) if text.startswith("{") else text
            return {"status": answer.status, "body": content}

    async def keep(self, name: str, method: str, path: str, body: object = None, *, token: str | None = None) -> Any:
        """Send a request and record its answer."""
        self.answers[name] = await self.ask(method, path, body, token=token)
        return self.answers[name]["body"]

    async def record(self) -> None:
        """Record a job and an array before and after they run, nodes, and common errors."""
        version, world = self._version, self._world
        user = world.new_user()
        token = world.token(user)
        job = {
            "name": "recorded",
            "environment": ["PATH=/usr/bin:/bin"],
            "current_working_directory": world.shared_path,
            "standard_output": f"{world.shared_path}/recorded_%j.out",
            "comment": f"clusterra:user={user.name};uid={user.uid};key=recorded-key",
            "time_limit": 5,
        }
        submit = version.slurm("job/submit")
        plain = await self.keep("submit", "POST", submit, {"script": SCRIPT, "job": job}, token=token)
        array = await self.ask("POST", submit, {"script": SCRIPT, "job": job | {"array": "0-2%1"}}, token=token)
        array_id = array["body"]["job_id"]
        held = await self.ask("POST", submit, {"script": SCRIPT, "job": job | {"hold": True}}, token=token)
        held_id = held["body"]["job_id"]
        await self.keep("waiting_array", "GET", version.slurm(f"job/{array_id}"))
        await self.keep("states", "GET", version.slurm("jobs/state/"))

        async def ended() -> bool:
            answer = await self.ask("GET", version.slurm(f"job/{array_id}"))
            return all(record["job_state"][0] in ("COMPLETED", "FAILED") for record in answer["body"]["jobs"])

        await until(ended, seconds=90, what="the end of the array", every=0.2)
        await self.keep("job", "GET", version.slurm(f"job/{plain['job_id']}"))
        await self.keep("array", "GET", version.slurm(f"job/{array_id}"))
        await self.keep("held", "GET", version.slurm(f"job/{held_id}"))
        await self.keep("kill", "DELETE", version.slurm("jobs/"), {"jobs": [str(held_id), "999999"]}, token=token)
        await self.keep("nodes", "GET", version.slurm("nodes/"))
        await self.keep("ping", "GET", version.slurm("ping/"))
        await self.keep("accounting", "GET", version.slurmdb(f"jobs/?step={array_id}&skip_steps=true"))
        await self.keep("users", "GET", version.slurmdb("users/"))
        await self.keep("unknown_job", "GET", version.slurm("job/999999"))
        await self.keep("unknown_node", "GET", version.slurm("node/nowhere"))
        await self.keep("bad_token", "GET", version.slurm("jobs/state/"), token="bad")
        await self.keep(
            "bad_feature", "POST", submit, {"script": SCRIPT, "job": job | {"constraints": "no"}}, token=token
        )


def _without_machine(part: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields that depend on the recording machine."""
    return {name: value for name, value in part.items() if name not in ("client", "operating_system", "boot_time")}


async def main() -> None:
    """Record all versions."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            slurm_world(Path(folder)) as world,
            world.worker("w1"),
            aiohttp.ClientSession(world.cluster.slurmrestd_url, connector=SlurmrestdConnector(limit=2)) as http,
        ):
            for version in VERSIONS:
                recorder = Recorder(http, world, version)
                await recorder.record()
                path = RECORDED / f"{version.name}.json"
                path.write_text(json.dumps(recorder.answers, indent=1, sort_keys=True) + "\n")
                print(f"{path}: {len(recorder.answers)} answers")


if __name__ == "__main__":
    asyncio.run(main())

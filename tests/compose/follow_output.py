"""Runs in the container of the demo: submits a job as ada, follows its output, and prints when each line arrived.

Arguments: the gateway's URL, and the job's script. Prints a JSON list of `[line, seconds]`.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from clusterra_lab.parts.login import log_in
from clusterra_lab.parts.user import logged_in


async def _followed(gateway: str, script: str) -> list[tuple[str, float]]:
    password = Path("/etc/clusterra/ada").read_text().strip()
    arrived = []
    async with logged_in(gateway, "main", lambda url: log_in(url, "ada", password)) as ada:
        job = await ada.submit(script, {"name": "prints"})
        async for event in ada.follow(job.job_id):
            if event.event == "end":
                break
            arrived += [(line, time.monotonic()) for line in event.data.splitlines()]
    return arrived


print(json.dumps(asyncio.run(_followed(sys.argv[1], sys.argv[2]))))

"""Runs in the container of the demo: opens an interactive session as ada in a browser, and prints what the page says.

Arguments: the gateway's URL, and the file of the session's template, which is published and in the end deleted. Prints
JSON: the page's answer to ada, and the status for a browser without her ticket. `session_client.py` lies beside it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from clusterra_lab.parts.login import log_in
from clusterra_lab.parts.user import logged_in
from session_client import asked, entered, place, published, until_ready


async def _opened(gateway: str, definition: str) -> dict[str, Any]:
    password = Path("/etc/clusterra/ada").read_text().strip()
    async with (
        logged_in(gateway, "main", lambda url: log_in(url, "ada", password)) as ada,
        published(ada, definition) as template_id,
    ):
        started = await asked(ada, "POST", place(ada), {"template_id": template_id}, status=201)
        job_id = started["job_id"]
        try:
            await until_ready(ada, job_id)
            async with ClientSession() as browser, ClientSession() as stranger:
                url = await entered(ada, browser, job_id)
                async with browser.get(url) as answer:
                    found = {"url": url, "job_id": job_id, "status": answer.status, "text": await answer.text()}
                async with stranger.get(url) as refused:
                    return {**found, "without_ticket": refused.status}
        finally:
            await asked(ada, "DELETE", place(ada, job_id), status=204)


print(json.dumps(asyncio.run(_opened(sys.argv[1], Path(sys.argv[2]).read_text()))))

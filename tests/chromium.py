"""A real browser for tests: Chromium of this machine, driven by Playwright in an environment of its own."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from cached_packages import installed
from clusterra_lab.machine.process import run

PLAYWRIGHT = "playwright==1.65.*"


async def in_chromium(script: str, address: str, cookies: Mapping[str, str], directory: Path) -> str:
    """The last line that a script beside this file prints of a page in a browser with these cookies.

    The machine must have Chromium. The script gets the address, Chromium's path, a file for a picture, and the cookies
    as JSON.
    """
    chromium = shutil.which("chromium")
    assert chromium is not None
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    packages = await installed(f"playwright-{version}", PLAYWRIGHT, options=("--python", sys.executable))
    program, log = Path(__file__).with_name(script), directory / "browser.log"
    arguments = (address, chromium, str(directory / "page.png"), json.dumps(dict(cookies)))
    # Not `-E`: the packages are found by PYTHONPATH.
    ran = await run("browser", [sys.executable, str(program), *arguments], log=log, env={"PYTHONPATH": str(packages)})
    assert ran.exit_code == 0, log.read_text()
    return log.read_text().strip().splitlines()[-1]

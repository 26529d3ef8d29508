"""A real browser for tests: Chromium, driven by Playwright in an environment of its own."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cached_packages import installed, made_once
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.process import run

PLAYWRIGHT = "playwright==1.65.*"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_APT = ("apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1")
_WRAPPER = """\
#!/bin/sh
export LD_LIBRARY_PATH="{libraries}"
exec "{root}/usr/lib/chromium/chromium" "$@"
"""


async def in_chromium(script: str, address: str, cookies: Mapping[str, str], directory: Path) -> str:
    """The last line that a script beside this file prints of a page in a browser with these cookies.

    The script gets the address, Chromium's path, a file for a picture, and the cookies as JSON.
    """
    program, log = Path(__file__).with_name(script), directory / "browser.log"
    arguments = (address, await chromium(), str(directory / "page.png"), json.dumps(dict(cookies)))
    # Not `-E`: the packages are found by PYTHONPATH.
    ran = await run(
        "browser", [sys.executable, str(program), *arguments], log=log, env={"PYTHONPATH": str(await playwright())}
    )
    assert ran.exit_code == 0, log.read_text()
    return log.read_text().strip().splitlines()[-1]


async def playwright() -> Path:
    """The folder with Playwright, for PYTHONPATH of a script beside this file."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return await installed(f"playwright-{version}", PLAYWRIGHT, options=("--python", sys.executable))


async def chromium() -> str:
    """The path of Chromium: of this machine, else of Debian's packages, which are unpacked once and not installed.

    Skips the test where there is neither.
    """
    if own := shutil.which("chromium"):
        return own
    if shutil.which("apt-get", path=_PATH) is None:
        pytest.skip("this machine has neither chromium nor apt-get")
    async with made_once("chromium") as (folder, missing):
        if missing:
            await _unpack(folder)
    return str(folder / "chromium")


async def _unpack(folder: Path) -> None:
    """Fill an empty folder with Chromium, the libraries that this machine does not have, and a program that runs it."""
    archives, root, log = folder / "archives", folder / "root", cache_dir() / "chromium.log"
    (archives / "partial").mkdir(parents=True)
    options = ("-o", f"Dir::Cache::archives={archives}", "--yes", "--no-install-recommends", "--download-only")
    download = (*_APT, *options, "install", "chromium")
    # A new machine may not have downloaded its package lists yet.
    if not (await _run(download, log) or (await _run((*_APT, "update"), log) and await _run(download, log))):
        pytest.skip(f"apt-get cannot download chromium: {log.read_text()[-500:]}")
    for archive in sorted(archives.glob("*.deb")):
        assert await _run(("dpkg-deb", "--extract", str(archive), str(root)), log), log.read_text()
    shutil.rmtree(archives)
    libraries = ":".join(f"{found}:{found}/pulseaudio" for found in root.glob("usr/lib/*-linux-gnu*"))
    program = folder / "chromium"
    program.write_text(_WRAPPER.format(libraries=libraries, root=root))
    program.chmod(0o755)


async def _run(command: tuple[str, ...], log: Path) -> bool:
    return (await run(command[0], command, log=log, env={"PATH": _PATH, "LC_ALL": "C.UTF-8"})).exit_code == 0

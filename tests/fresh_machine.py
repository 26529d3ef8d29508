"""The environment of somebody who has uv and a registry, and nothing of Clusterra."""

import os
import sys
from pathlib import Path

from clusterra_lab.machine.cache import cache_dir
from uv import find_uv_bin


def fresh_environment(home: Path) -> dict[str, str]:
    """The variables of this process, among which those of the registry may be, with a home and tools of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CLUSTERRA_", "VIRTUAL_"))}
    return inherited | {
        "PATH": f"{home / 'bin'}:{Path(find_uv_bin()).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "UV_CACHE_DIR": str(cache_dir() / "uv"),
        "UV_PYTHON": sys.executable,
        "UV_TOOL_DIR": str(home / "tools"),
        "UV_TOOL_BIN_DIR": str(home / "bin"),
    }

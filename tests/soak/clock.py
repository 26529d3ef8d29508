"""Steps of the edge-agent's wall clock, by a small library that is built once and preloaded into the services."""

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

from clusterra_lab.machine.cache import cache_dir

_SOURCE = Path(__file__).with_name("clock_shift.c")


class AgentClock:
    """The agent's clock. `step` takes effect at once, also in a running agent."""

    def __init__(self, folder: Path) -> None:
        """Raises CalledProcessError and FileNotFoundError without a C compiler."""
        self._file = folder / "clock-shift"
        self._library = _built()
        self.step(0)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the services need."""
        return {"LD_PRELOAD": str(self._library), "SOAK_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """Let the agent's clock be wrong by so many seconds from now on."""
        part = self._file.with_suffix(".part")
        part.write_text(str(seconds))
        part.rename(self._file)


def _built() -> Path:
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    library = cache_dir() / f"clock-shift-{digest}.so"
    if not library.exists():
        part = library.with_suffix(".part")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", part, _SOURCE, "-ldl"], check=True)
        part.rename(library)
    return library

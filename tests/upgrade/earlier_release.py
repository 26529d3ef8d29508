"""An earlier release with a virtual environment of its own, in the cache: made once per commit."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.process import run

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Release:
    """The installed packages of one commit."""

    commit: str
    directory: Path

    @property
    def python(self) -> str:
        """The interpreter that has them."""
        return str(self.directory / ".venv" / "bin" / "python")


async def earlier_release(ref: str, logs: Path) -> Release:
    """Install the release of a git ref, unless it is there. Raises RuntimeError with the end of the failing log."""
    commit = (await _done("git-rev-parse", ["git", "rev-parse", f"{ref}^{{commit}}"], logs)).splitlines()[-1]
    directory = cache_dir() / f"release-{commit[:12]}"
    async with exclusive_lock(directory.with_suffix(".lock"), seconds=600, what="the installation of a release"):
        if not (directory / ".venv" / ".installed").exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            archive = directory / "release.tar"
            await _done("git-archive", ["git", "archive", f"--output={archive}", commit], logs)
            await _done("tar", ["tar", "--extract", f"--file={archive}", f"--directory={directory}"], logs)
            archive.unlink()
            make = ["make", f"--directory={directory}", f"PYTHON={sys.executable}", ".venv/.installed"]
            await _done("install", make, logs)
    return Release(commit, directory)


async def _done(name: str, argv: list[str], logs: Path) -> str:
    process = await run(name, argv, log=logs / f"{name}.log", cwd=REPOSITORY)
    if process.exit_code != 0:
        raise RuntimeError(f"{' '.join(argv)} failed:\n{process.tail()}")
    return process.tail()

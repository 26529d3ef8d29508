"""The cache: files that are downloaded or built once and shared by all labs."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return $CLUSTERRA_CACHE, else `clusterra` in $XDG_CACHE_HOME or ~/.cache; the folder is made when missing."""
    if given := os.environ.get("CLUSTERRA_CACHE"):
        directory = Path(given)
    else:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clusterra"
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()

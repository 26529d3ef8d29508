"""What each part of a submit takes, as the gateway and the proxy measure it themselves (`inside/sitecustomize.py`)."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from latency import percentile

INSIDE = Path(__file__).parent / "inside"

type Parts = dict[str, list[float]]
"""Part -> its seconds in each submit."""


@dataclass
class SubmitParts:
    """Reads the parts of submits from the file that both services append to."""

    file: Path
    read: int = 0
    """Bytes of the file that have been read."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of services that measure their submits."""
        return {"PYTHONPATH": str(INSIDE), "BENCH_SUBMIT_PARTS": str(self.file)}

    def since_last(self) -> Parts:
        """The parts of all submits since the last call."""
        with self.file.open("rb") as file:
            file.seek(self.read)
            lines = file.read()
        self.read += len(lines)
        found: Parts = defaultdict(list)
        for line in lines.splitlines():
            for part, seconds in json.loads(line).items():
                found[part].append(seconds)
        return found


def figures_of(what: str, parts: Parts) -> dict[str, float]:
    """The median and the 99th percentile of each part, in milliseconds."""
    return {
        f"{what}_{part}_p{percent}_ms": round(percentile(seconds, percent) * 1e3, 3)
        for part, seconds in parts.items()
        for percent in (50, 99)
    }

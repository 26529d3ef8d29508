"""`python little_lab.py FOLDER`: like `lab up`, with one small service instead of the real ones."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.stack.fleet import Command, fleet
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.up import open_home, stay_up


@dataclass
class LittleLab:
    home: Home
    summary: Summary


@asynccontextmanager
async def little_lab(directory: Path) -> AsyncIterator[LittleLab]:
    environment = {"PYTHONPATH": str(Path(__file__).parent), "COLOUR": "red", "WORKER": "1"}
    greeter = Command("greeter", "little_service", environment)
    async with open_home(directory) as home, fleet([greeter], home.logs) as services:
        health = {name: service.health_url for name, service in services.items()}
        yield LittleLab(home, Summary(addresses=health, health=health))


def print_line(line: str) -> None:
    print(line, flush=True)


def main(directory: Path) -> None:
    try:
        asyncio.run(stay_up(little_lab(directory), print_line, lambda lab: print_line(f"up: {lab.summary}")))
    except LabProblem as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Measures the images and the stack of compose.yaml: time of builds and of the start, sizes, and memory.

Needs a container engine and 127.0.0.1. The stack runs under a project name of its own on free ports, and is removed
with its volumes. A cold build uses no layer of an earlier build, but the downloaded packages and base images: `install`
mounts uv's cache. Prints one JSON line last; seconds and MB (10^6 bytes) are medians of `--rounds`, the cold build runs
once. Other work on the machine counts: `load` is the machine's load average at the start and at the end.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import takewhile
from pathlib import Path
from typing import Any

from clusterra_lab.machine.container import engine
from clusterra_lab.machine.ports import reserved_ports

ROOT = Path(__file__).parents[1]
VERSION = "bench"
PROJECT = "clusterra-bench"
SERVICES = ("gateway", "proxy", "scaler", "edge-agent", "events", "admin")
IMAGES = (*SERVICES, "slurmctld", "slurmdbd", "slurmrestd", "login", "slurmd", "edge")
MEMORY_SECONDS = 20.0
"""How long the stack is idle before its memory is read."""
PROBES = 20
PROBE = f"""
import resource, subprocess
for _ in range({PROBES}):
    subprocess.run(["python", "-I", "-m", "clusterra_runtime.probe"], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(1000 * (used.ru_utime + used.ru_stime) / {PROBES})
"""


def run(*argv: str, directory: Path = ROOT, environment: dict[str, str] | None = None) -> float:
    """Run a command; returns its seconds. Its output is shown only if it fails."""
    started = time.monotonic()
    variables = os.environ | (environment or {})
    ended = subprocess.run(argv, cwd=directory, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(argv)} failed:\n{ended.stdout.decode()[-4000:]}")
    return time.monotonic() - started


def copy_sources(directory: Path) -> None:
    """Copy what the images are built from, so that a file can be edited."""
    for path in ("docker-bake.hcl", ".dockerignore", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / path, directory)
    for path in ("libs", "services", "admin", "catalog", "images"):
        shutil.copytree(ROOT / path, directory / path, ignore=shutil.ignore_patterns("__pycache__", "tests"))


def builds(rounds: int) -> dict[str, float]:
    """Build all images: without any layer, again, and after an edit of the libraries, which all services contain."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder)
        copy_sources(sources)

        def bake(*options: str) -> float:
            command = ("docker", "buildx", "bake", "--file=docker-bake.hcl", *options)
            return run(*command, directory=sources, environment={"VERSION": VERSION})

        def after_an_edit() -> float:
            module = sources / "libs" / "runtime" / "src" / "clusterra_runtime" / "clock.py"
            module.write_text(f"{module.read_text()}# {time.time_ns()}\n")
            return bake()

        return {
            "cold_seconds": round(bake("--no-cache"), 1),
            "warm_seconds": round(statistics.median(bake() for _ in range(rounds)), 1),
            "after_an_edit_seconds": round(statistics.median(after_an_edit() for _ in range(rounds)), 1),
        }


def sizes() -> dict[str, Any]:
    """The size of each image, beyond its base too; and of the services' images together, shared layers counted once."""
    with engine() as client:
        about = {image: client.images.get(f"clusterra-{image}:{VERSION}") for image in IMAGES}
        base = {name: client.images.get(name).attrs["Size"] / 1e6 for name in ("python:3.13-slim", "debian:forky-slim")}
        layers = [about[image].attrs["RootFS"]["Layers"] for image in SERVICES]
        common = len(list(takewhile(lambda each: len(set(each)) == 1, zip(*layers, strict=False))))
        steps = [step["Size"] for step in reversed(about["gateway"].history()) if step["Size"]]
    size = {image: found.attrs["Size"] / 1e6 for image, found in about.items()}
    beyond = {
        image: size[image] - base["python:3.13-slim" if image in SERVICES else "debian:forky-slim"] for image in IMAGES
    }
    shared = sum(steps[:common]) / 1e6 - base["python:3.13-slim"]
    return {
        "mb": {image: round(size[image], 1) for image in IMAGES},
        "beyond_base_mb": {image: round(beyond[image], 1) for image in IMAGES},
        "services_shared_mb": round(shared, 1),
        "services_together_mb": round(shared + sum(beyond[image] - shared for image in SERVICES), 1),
    }


def memory_mb(samples: int) -> dict[str, float]:
    """Service of compose.yaml -> MB that its container uses, without the file cache that may be dropped."""
    found: dict[str, list[float]] = {}
    with engine() as client:
        containers = client.containers.list(filters={"label": f"com.docker.compose.project={PROJECT}"})
        for _ in range(samples):
            for container in containers:
                usage: dict[str, Any] = container.stats(stream=False)["memory_stats"]
                used = usage["usage"] - usage["stats"].get("inactive_file", 0)
                found.setdefault(container.labels["com.docker.compose.service"], []).append(used / 1e6)
    return {service: round(statistics.median(values), 1) for service, values in sorted(found.items())}


def stack(rounds: int) -> dict[str, Any]:
    """Start the stack, measure it, and remove it with its volumes."""
    with reserved_ports(2) as (http, oidc):
        environment = {
            "COMPOSE_PROJECT_NAME": PROJECT,
            "CLUSTERRA_VERSION": VERSION,
            "CLUSTERRA_PORT": str(http),
            "OIDC_PORT": str(oidc),
        }
    compose = ("docker", "compose")
    try:
        run(*compose, "build", environment=environment)
        first = run(*compose, "up", "--wait", "--no-build", environment=environment)
        unchanged = [run(*compose, "up", "--wait", "--no-build", environment=environment) for _ in range(rounds)]
        time.sleep(MEMORY_SECONDS)
        memory = memory_mb(rounds)
        probe = [*compose, "exec", "-T", "proxy", "python", "-c", PROBE]
        printed = subprocess.run(
            probe, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, check=True
        ).stdout
    finally:
        run(*compose, "--profile=*", "down", "--volumes", "--remove-orphans", environment=environment)
    return {
        "up_first_seconds": round(first, 1),
        "up_unchanged_seconds": round(statistics.median(unchanged), 1),
        "memory_mb": memory,
        "memory_all_mb": round(sum(memory.values()), 1),
        "probe_cpu_ms": round(float(printed), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="warm builds, and readings of memory")
    rounds = parser.parse_args().rounds
    load = [os.getloadavg()[0]]
    print("building all images, cold and warm", file=sys.stderr)
    figures = builds(rounds) | sizes()
    print("starting the stack of compose.yaml", file=sys.stderr)
    figures |= stack(rounds)
    load.append(os.getloadavg()[0])
    print(json.dumps(figures | {"load": [round(each, 1) for each in load], "cpus": os.cpu_count()}))


if __name__ == "__main__":
    main()

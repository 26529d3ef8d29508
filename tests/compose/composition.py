"""A Compose project of the repository's compose.yaml, with a name, ports and image tags of its own."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until

ROOT = Path(__file__).parents[2]
UP_SECONDS = 600.0
"""Enough to build every image once."""
COMMAND_SECONDS = 120.0
DEMO_SECONDS = 500.0
KINDS = {"container": ["ps", "--all"], "volume": ["volume", "ls"], "network": ["network", "ls"]}


class CommandFailed(Exception):
    """A command ended with an error; the text has the end of its output."""


async def run(argv: Sequence[str], *, environment: Mapping[str, str], seconds: float) -> str:
    """Run a command in the repository's root; returns its standard output. Raises CommandFailed, TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, error = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        text = (out + error).decode(errors="replace")[-6000:]
        raise CommandFailed(f"{' '.join(argv)} ended with {process.returncode}:\n{text}")
    return out.decode(errors="replace")


@dataclass(frozen=True)
class Composition:
    """The project; `compose` and `exec` run commands for it."""

    project: str
    environment: Mapping[str, str]

    @property
    def gateway_url(self) -> str:
        """The gateway's address in the network of the containers, and on this machine."""
        return f"http://clusterra.localhost:{self.environment['CLUSTERRA_PORT']}"

    async def compose(self, *argv: str, seconds: float = COMMAND_SECONDS) -> str:
        """`docker compose ARGV`."""
        return await run(["docker", "compose", *argv], environment=self.environment, seconds=seconds)

    async def docker(self, *argv: str, seconds: float = COMMAND_SECONDS) -> str:
        """`docker ARGV`."""
        return await run(["docker", *argv], environment=self.environment, seconds=seconds)

    async def exec(self, service: str, *argv: str, user: str | None = None, index: int = 1) -> str:
        """Run a command in a container of a service."""
        as_user = ["--user", user] if user else []
        return await self.compose("exec", "--no-TTY", f"--index={index}", *as_user, service, *argv)

    async def containers(self, service: str) -> list[str]:
        """The names of a service's containers that run."""
        return (await self.compose("ps", "--format={{.Name}}", service)).split()

    async def up(self, *argv: str) -> None:
        """Start what does not run, and wait until everything is healthy."""
        try:
            await self.compose("up", "--detach", "--wait", *argv, seconds=UP_SECONDS)
        except CommandFailed as failed:
            # The containers are removed after the tests.
            raise CommandFailed(f"{str(failed)[-1500:]}\n{await self._unhealthy()}") from None

    async def _unhealthy(self) -> str:
        """The containers that are not in good health or ended once: their states, last checks of health, and logs."""
        found = []
        for line in (await self.compose("ps", "--all", "--format={{json .}}")).splitlines():
            told = json.loads(line)
            name, state, health = told["Name"], told["State"], told["Health"]
            inspected = await self.docker("inspect", "--format={{.RestartCount}} {{json .State.Health}}", name)
            restarts, checks = inspected.split(maxsplit=1)
            if state == "running" and health in ("", "healthy") and restarts == "0":
                continue
            logs = await self.compose("logs", "--no-color", "--tail=30", told["Service"])
            told_of = f"{name}: {state}, health {health!r}, exit code {told['ExitCode']}, restarts {restarts}"
            found.append(f"{told_of}\n{checks[-1500:]}{logs}")
        return "\n".join(found)

    async def scale(self, **replicas: int) -> None:
        """Start or remove containers of these services, and wait until they are healthy; leave all others alone."""
        scales = [f"--scale={service}={count}" for service, count in replicas.items()]
        await self.up("--no-build", "--no-recreate", "--no-deps", *scales, *replicas)

    async def demo(self) -> str:
        """Run the demo; returns its output. Raises CommandFailed when one of its checks fails."""
        return await self.compose(
            "--progress=quiet", "run", "--rm", "--no-deps", "--no-TTY", "demo", seconds=DEMO_SECONDS
        )

    async def healthy(self, container: str, *, seconds: float = 120.0) -> None:
        """Wait until a container is healthy, or runs if it has no health check. Raises TimeoutError."""
        format_ = "{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}"

        async def is_healthy() -> bool:
            return (await self.docker("inspect", f"--format={format_}", container)).strip() in ("healthy", "running")

        await until(is_healthy, seconds=seconds, what=f"{container} to be healthy", every=0.3)

    async def left(self) -> dict[str, list[str]]:
        """What the engine still has of the project: kind -> names."""
        label = f"--filter=label=com.docker.compose.project={self.project}"
        found = {kind: (await self.docker(*argv, label, "--quiet")).split() for kind, argv in KINDS.items()}
        return {kind: names for kind, names in found.items() if names}

    async def addresses(self, network: str) -> dict[str, str]:
        """Service -> IPv4 address in a network of the project, of one container each."""
        ids = (await self.compose("ps", "--quiet")).split()
        found = {}
        for container in json.loads(await self.docker("inspect", *ids)):
            networks = container["NetworkSettings"]["Networks"]
            if attached := networks.get(f"{self.project}_{network}"):
                found[container["Config"]["Labels"]["com.docker.compose.service"]] = attached["IPAddress"]
        return found


@asynccontextmanager
async def composition() -> AsyncIterator[Composition]:
    """Build and start the whole product as compose.yaml says; in the end, remove it and check that nothing is left."""
    project = f"clusterra-test-{secrets.token_hex(3)}"
    composed = Composition(
        project,
        {
            "COMPOSE_PROJECT_NAME": project,
            "CLUSTERRA_VERSION": "compose-test",
            "CLUSTERRA_PORT": str(free_port()),
            "OIDC_PORT": str(free_port()),
            # Slurm takes up to a minute to miss the workers of a killed container, and then requeues their jobs.
            "DEMO_SECONDS": "300",
        },
    )
    try:
        await composed.up("--build")
        await composed.compose("build", "--quiet", "demo", seconds=UP_SECONDS)
        yield composed
    finally:
        await composed.compose("--profile=*", "down", "--volumes", "--timeout=5", seconds=UP_SECONDS)
    left = await composed.left()
    assert not left, f"docker compose down --volumes left {left}"


async def kill_and_start(composed: Composition, service: str) -> list[str]:
    """Kill all containers of a service and start them again; returns their names.

    slurmctld is killed when it has written the jobs that it has confirmed. It writes within 5 s after the confirmation,
    and a SIGKILL before that loses them.
    """
    if service == "slurmctld":
        await _saved_by_slurmctld(composed)
    killed = await composed.containers(service)
    await composed.docker("kill", *killed)
    await composed.docker("start", *killed)
    return killed


async def _saved_by_slurmctld(composed: Composition) -> None:
    state = ("sh", "-c", "stat --format=%Y /var/spool/slurmctld/job_state; date +%s")
    began = int((await composed.exec("slurmctld", *state)).split()[1])

    async def saved() -> bool:
        return int((await composed.exec("slurmctld", *state)).split()[0]) > began

    await until(saved, seconds=90, what="slurmctld to save its jobs", every=0.1)


@asynccontextmanager
async def running_demo(composed: Composition) -> AsyncIterator[None]:
    """Start the demo; the block begins when its first job has started. In the end, the demo must have passed."""
    process = await asyncio.create_subprocess_exec(
        *("docker", "compose", "--progress=quiet", "run", "--rm", "--no-deps", "--no-TTY", "demo"),
        cwd=ROOT,
        env={**os.environ, **composed.environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    printed: list[str] = []
    try:
        async with asyncio.timeout(DEMO_SECONDS):
            # A short job may have ended before the demo sees it.
            while not (printed and any(state in printed[-1] for state in ("RUNNING", "COMPLETED"))):
                line = await process.stdout.readline()
                assert line, "".join(printed)
                printed.append(line.decode())
            yield
            rest, _ = await process.communicate()
            printed.append(rest.decode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, "".join(printed)

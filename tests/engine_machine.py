"""A machine without Slurm on which a person runs a workflow engine over our commands: `make test-engines`.

It is the lab's Debian root with the cluster's shared folder at the path that it has in jobs, as where people mount
that folder. Slurm's own commands are hidden. Ours are in /opt, which no worker sees, first on the PATH.
"""

import asyncio
import shutil
import time
from asyncio.subprocess import DEVNULL, STDOUT
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession
from cached_packages import installed, linked
from clusterra_lab.machine.process import run
from clusterra_lab.parts.user import Profile
from clusterra_lab.stack.stack import Stack
from prometheus_client.parser import text_string_to_metric_families
from uv import find_uv_bin

OPT = "/opt/clusterra"
ACCOUNT = "visitor"
"""The name of the person's account on this machine, which is not that in the cluster."""
_ENTER = """\
set -eu
uid=$1; shift
for program in $(grep '^/usr/bin/.' /var/lib/dpkg/info/slurm-client.list); do
  mount --bind /dev/null "$program"
done
mount --bind /mnt/efs/machine /opt
mount --bind /opt/passwd /etc/passwd
exec setpriv --reuid="$uid" --regid="$uid" --clear-groups setpriv --pdeathsig=KILL "$@"
"""
_RECORDED = """\
#!/bin/bash
# Runs the command of this name, and notes its exit code, its seconds and its words.
began=$EPOCHREALTIME
/opt/clusterra/links/"${0##*/}" "$@"
code=$?
ended=$EPOCHREALTIME
printf '%s\\t%s\\t%s %s\\n' "$code" "$(( (${ended/./} - ${began/./}) / 1000 ))" "${0##*/}" "${*@Q}" >>"$COMMANDS_LOG"
exit "$code"
"""


@dataclass(frozen=True)
class Command:
    """A command line of Slurm's that an engine sent."""

    code: int
    milliseconds: int
    line: str

    @property
    def name(self) -> str:
        """Such as `sbatch`."""
        return self.line.partition(" ")[0]


@dataclass(frozen=True)
class EngineMachine:
    """The machine. `home` is a folder of the shared folder that belongs to the person."""

    lab: Stack
    owner: Profile
    variables: Mapping[str, str]
    home: Path

    def inside(self, path: Path) -> str:
        """The path that a file of the shared folder has on the machine and in jobs."""
        return f"{self.lab.slurm.shared_path}/{path.relative_to(self.lab.slurm.shared_dir)}"

    async def run(self, *argv: str, seconds: float = 300.0, **variables: str) -> str:
        """Run a program in the home to its end. Returns its output; fails if it fails."""
        environment = {
            "COMMANDS_LOG": self.inside(self.home / "commands.log"),
            "HOME": self.inside(self.home),
            "USER": ACCOUNT,
            "LANG": "C.UTF-8",
            **self.variables,
            **variables,
        }
        path = f"{OPT}/recorded:/usr/bin:/bin"
        log = self.home / "engine.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(*self.lab.slurm.launcher, "unshare", "--mount", "sh", "-c", _ENTER, "enter", str(self.owner.uid)),
                *("env", f"--chdir={self.inside(self.home)}", f"PATH={path}", *argv),
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                env=environment,
            )
        started = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            pytest.fail(f"{argv[0]} did not end in {seconds} s:\n{log.read_text(errors='replace')}\n{self.report()}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said = log.read_text(errors="replace")
        assert process.returncode == 0, f"{said}\n{self.report()}"
        print(f"{argv[0]} took {time.monotonic() - started:.1f} s")
        return said

    def commands(self) -> Iterator[Command]:
        """The command lines of Slurm's that were sent."""
        log = self.home / "commands.log"
        for line in log.read_text().splitlines() if log.exists() else ():
            code, milliseconds, words = line.split("\t", 2)
            yield Command(int(code), int(milliseconds), words)

    def report(self) -> str:
        """The command lines, each with its exit code and its seconds."""
        return "".join(
            f"{each.code} {each.milliseconds / 1000:5.1f} s  {each.line[:400]}\n" for each in self.commands()
        )


async def engine_machine(lab: Stack, owner: Profile, variables: Mapping[str, str]) -> EngineMachine:
    """Make the machine, unless the lab has it, and a new home."""
    shared = lab.slurm.shared_dir
    if not (shared / "machine" / "clusterra" / "recorded").exists():
        await _install(lab, shared / "machine", owner.uid)
    home = shared / "engines" / str(time.monotonic_ns())
    home.mkdir(parents=True)
    shutil.chown(home, owner.uid, owner.uid)
    return EngineMachine(lab, owner, {"CLUSTERRA_URL": lab.gateway_url, **variables}, home)


async def _install(lab: Stack, folder: Path, uid: int) -> None:
    """Our commands as `uv tool install ./cli` and `clusterra-slurm install` make them."""
    own = folder / "clusterra"
    packages = environment_in(own, await python_version(lab))
    repository = Path(__file__).parents[1]
    options = (
        "--quiet",
        "--no-sources",
        "--only-binary",
        ":all:",
        "--no-binary",
        "clusterra-cli",
        "--no-binary",
        "clusterra-sdk",
    )
    command = [find_uv_bin(), "pip", "install", *options, "--python-version", await python_version(lab)]
    sources = [str(repository / "cli"), str(repository / "libs" / "sdk")]
    log = folder / "install.log"
    made = await run("install", [*command, "--target", str(packages), *sources], log=log)
    if made.exit_code != 0:
        shutil.rmtree(own)
        pytest.skip(f"what clusterra-slurm needs cannot be installed from PyPI: {made.tail()}")
    program = own / "bin" / "clusterra-slurm"
    program.write_text(
        f"#!{OPT}/bin/python3\nfrom clusterra_cli.slurm_commands.program import main\n\nmain()\n",
    )
    program.chmod(0o755)
    (folder / "passwd").write_text(
        f"root:x:0:0::/root:/bin/bash\n{ACCOUNT}:x:{uid}:{uid}::{lab.slurm.shared_path}:/bin/bash\n"
    )
    enter = ("unshare", "--mount", "sh", "-c", _ENTER, "enter", "0", f"{OPT}/bin/clusterra-slurm")
    linking = await lab.slurm.run(*enter, "install", f"{OPT}/links")
    assert linking.returncode == 0, linking.stderr
    (own / "recorded").mkdir()
    for link in (own / "links").iterdir():
        recorded = own / "recorded" / link.name
        recorded.write_text(_RECORDED)
        recorded.chmod(0o755)


async def requests_by_route(lab: Stack) -> Counter[str]:
    """The requests that the gateway has answered, by the names of their routes."""
    async with ClientSession() as http, http.get(f"{lab.services['gateway'].health_url}/metrics") as answer:
        families = list(text_string_to_metric_families(await answer.text()))
    counted: Counter[str] = Counter()
    for sample in (each for family in families for each in family.samples):
        if sample.name == "clusterra_http_requests_total":
            counted[sample.labels["route"]] += int(sample.value)
    return counted


async def python_version(lab: Stack) -> str:
    """The version of the workers' Python, such as `3.14`."""
    asked = await lab.slurm.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    return asked.stdout.strip()


def environment_in(folder: Path, version: str) -> Path:
    """Make an empty virtual environment of the workers' Python. Returns its folder of packages."""
    packages = folder / "lib" / f"python{version}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n")
    return packages


async def engine_environment(machine: EngineMachine, name: str, *packages: str, options: tuple[str, ...] = ()) -> str:
    """Put a virtual environment with packages of PyPI into the shared folder. Returns its path, also that in jobs."""
    version = await python_version(machine.lab)
    folder = machine.lab.slurm.shared_dir / "envs" / name
    if not folder.exists():
        kept = f"engine-{packages[0].replace('==', '-')}-python{version}"
        source = await downloaded(kept, *packages, options=("--python-version", version, *options))
        place = environment_in(folder, version)
        shutil.copytree(source, place, copy_function=linked, dirs_exist_ok=True)
        _programs(place / "bin", folder / "bin", f"{machine.inside(folder)}/bin/python3")
    return machine.inside(folder)


async def downloaded(name: str, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """A folder of the cache with these packages of PyPI. Skips the test where PyPI is not in reach."""
    try:
        return await installed(name, *packages, options=options)
    except AssertionError as error:
        pytest.skip(f"{packages[0]} cannot be installed from PyPI: {error}")


def _programs(source: Path, target: Path, python: str) -> None:
    """Copies programs, which shall start with the Python of their environment."""
    for program in source.iterdir() if source.exists() else ():
        text = program.read_text(errors="replace")
        if text.startswith("#!") and "python" in text.partition("\n")[0]:
            (target / program.name).write_text(f"#!{python}\n{text.partition('\n')[2]}")
            (target / program.name).chmod(0o755)

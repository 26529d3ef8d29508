"""Builds a Debian root file system with debootstrap and this machine's own apt.

Only this machine's apt uses the network, so its mirror, proxies, certificates and credentials apply to the new root,
too. All mounts are made in private namespaces, so they vanish however the build ends.
"""

import asyncio
import os
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run
from clusterra_lab.machine.progress import Progress

MIRROR = "CLUSTERRA_DEBIAN_MIRROR"
"""Environment variable with the URL of a Debian mirror, for machines whose apt has none."""

PRIVATE = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation=private")
"""Put before a command, runs it with private mounts, and ends all its descendants with it."""

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_TOOLS = ("debootstrap", "debian-archive-keyring")
_KEYRING = "usr/share/keyrings/debian-archive-keyring.gpg"

_DPKG = """\
force-unsafe-io
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
"""

_WGET = """\
#!/bin/sh
# debootstrap fetches with wget, which knows nothing of apt's mirrors, proxies and credentials.
while [ $# -gt 0 ]; do
  case $1 in
    -O) file=$2; shift ;;
    *://*) url=$1 ;;
  esac
  shift
done
exec /usr/lib/apt/apt-helper download-file "$url" "$file"
"""

_INSTALL = """\
set -eu
root=$1; shift
printf '#!/bin/sh\\nexit 101\\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
DEBIAN_FRONTEND=noninteractive chroot "$root" \\
  apt-get install --yes --no-install-recommends --no-download -o Dpkg::Use-Pty=0 "$@"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root/etc/apt/sources.list"
"""

RECIPE = (_DPKG, _WGET, _INSTALL)
"""The texts that the result depends on, besides the suite and its packages."""


class RootNotBuilt(LabProblem):
    """The Debian root cannot be built on this machine; the text says why and what to do."""


@dataclass(frozen=True)
class Workshop:
    """The files of a build: `folder` is scratch space and has the finished root, `log` the output of all steps."""

    folder: Path
    log: Path

    @property
    def root(self) -> Path:
        """The new file system."""
        return self.folder / "root"

    @property
    def tools(self) -> Path:
        """Folder with the programs that only the build needs, unpacked and not installed."""
        return self.folder / "tools"

    @property
    def sources(self) -> Path:
        """The sources.list from which this machine's apt reads the suite of the new root."""
        return self.folder / "sources.list"

    async def step(self, argv: Sequence[str], *, cwd: Path | None = None, path: str = _PATH) -> None:
        """Run one command to its end. Raises RootNotBuilt with the end of its output."""
        process = await run(argv[0], argv, log=self.log, env={"PATH": path, "LC_ALL": "C.UTF-8"}, cwd=cwd)
        if process.exit_code != 0:
            raise RootNotBuilt(
                f"{argv[0]} ended with exit code {process.exit_code} while building the Debian root (full log: "
                f"{self.log}):\n{process.tail()}"
            )


def other_suites(packages: Sequence[str]) -> list[str]:
    """The suites that packages such as `apptainer/sid` name."""
    return sorted({package.partition("/")[2] for package in packages if "/" in package})


def can_build() -> bool:
    """Whether `build` can work: this process is root, and the machine has apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get", path=_PATH) is not None


async def build(workshop: Workshop, suite: str, packages: Sequence[str], progress: Progress) -> None:
    """Build a root of `suite` with `packages` and their dependencies. Raises RootNotBuilt.

    A package such as `apptainer/sid` is of another suite. Its dependencies are of `suite`, as far as that has them.
    """
    if os.geteuid() != 0:
        raise RootNotBuilt("a Debian root can only be built by root: run this as root")
    if shutil.which("apt-get", path=_PATH) is None:
        raise RootNotBuilt("building a Debian root needs apt-get and dpkg-deb, which this machine does not have")
    workshop.folder.mkdir(parents=True)
    progress("downloading debootstrap")
    await _unpack_tools(workshop)
    mirror = await _mirror()
    progress(f"building a Debian {suite} root (about half a minute, once)")
    await _bootstrap(workshop, suite, mirror)
    progress(f"installing {', '.join(packages[:3])} and more in the Debian root (about half a minute, once)")
    await _install(workshop, suite, mirror, packages)


async def _unpack_tools(workshop: Workshop) -> None:
    workshop.tools.mkdir()
    try:
        await _download_tools(workshop)
    except RootNotBuilt:
        # A new machine may not have downloaded its package lists yet.
        await workshop.step(["apt-get", "--quiet", "update"])
        await _download_tools(workshop)
    for package in workshop.tools.glob("*.deb"):
        await workshop.step(["dpkg-deb", "--extract", str(package), str(workshop.tools)])
    wget = workshop.tools / "bin" / "wget"
    wget.parent.mkdir(exist_ok=True)
    wget.write_text(_WGET)
    wget.chmod(0o755)


async def _download_tools(workshop: Workshop) -> None:
    options = ["--quiet", "-o", "APT::Sandbox::User=root"]
    await workshop.step(["apt-get", *options, "download", *_TOOLS], cwd=workshop.tools)


async def _mirror() -> str:
    """The URL of this machine's Debian mirror. Raises RootNotBuilt."""
    if given := os.environ.get(MIRROR):
        return given
    targets = await asyncio.create_subprocess_exec(
        *("apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN)/$(LABEL)", "Created-By: Packages"),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await targets.communicate()
    for line in output.decode().splitlines():
        uri, _, origin = line.partition(" ")
        if origin == "Debian/Debian":
            return uri
    raise RootNotBuilt(f"this machine's apt has no Debian mirror: name the URL of one in {MIRROR}")


async def _bootstrap(workshop: Workshop, suite: str, mirror: str) -> None:
    scripts = workshop.tools / "usr" / "share" / "debootstrap"
    if not (scripts / "scripts" / suite).exists():
        (scripts / "scripts" / suite).symlink_to("sid")
    dpkg = workshop.root / "etc" / "dpkg" / "dpkg.cfg.d" / "clusterra"
    dpkg.parent.mkdir(parents=True)
    dpkg.write_text(_DPKG)
    await workshop.step(
        [
            *PRIVATE,
            *("env", f"DEBOOTSTRAP_DIR={scripts}", str(workshop.tools / "usr" / "sbin" / "debootstrap")),
            *("--variant=minbase", f"--keyring={workshop.tools / _KEYRING}", suite, str(workshop.root), mirror),
        ],
        path=f"{workshop.tools / 'bin'}:{_PATH}",
    )


async def _install(workshop: Workshop, suite: str, mirror: str, packages: Sequence[str]) -> None:
    suites = (suite, *other_suites(packages))
    keyring = workshop.tools / _KEYRING
    workshop.sources.write_text("".join(f"deb [signed-by={keyring}] {mirror} {each} main\n" for each in suites))
    (workshop.root / "etc" / "apt" / "sources.list").write_text(
        "".join(f"deb {mirror} {each} main\n" for each in suites)
    )
    (workshop.root / "etc" / "apt" / "apt.conf.d" / "suite").write_text(f'APT::Default-Release "{suite}";\n')
    apt = ["apt-get", "--quiet", *_foreign(workshop, suite)]
    await workshop.step([*apt, "update"])
    await workshop.step([*apt, "install", "--yes", "--no-install-recommends", "--download-only", *packages])
    await workshop.step([*PRIVATE, "sh", "-c", _INSTALL, "install", str(workshop.root), *packages])


def _foreign(workshop: Workshop, suite: str) -> list[str]:
    """Options that make this machine's apt, with its own configuration, work on the packages of the new root."""
    state, cache = workshop.root / "var" / "lib", workshop.root / "var" / "cache" / "apt"
    options = f"""
        Dir::State={state / "apt"}
        Dir::State::status={state / "dpkg" / "status"}
        Dir::Cache={cache}
        Dir::Cache::pkgcache=
        Dir::Cache::srcpkgcache=
        Dir::Etc::sourcelist={workshop.sources}
        Dir::Etc::sourceparts=/dev/null
        Dir::Etc::preferences=/dev/null
        Dir::Etc::preferencesparts=/dev/null
        APT::Default-Release={suite}
        APT::Sandbox::User=root
        Acquire::Languages=none
    """
    return [part for option in textwrap.dedent(options).split() for part in ("-o", option)]

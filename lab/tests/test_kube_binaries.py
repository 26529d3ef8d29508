"""The Kubernetes programs: from the environment, or built once. Other tests use the programs built for real."""

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from clusterra_lab.kube.programs import binaries as kube_binaries
from clusterra_lab.kube.programs.binaries import (
    BINARIES,
    CONTROL_PLANE,
    GIVEN,
    BinariesNotBuilt,
    can_have_binaries,
    ensure_binaries,
)
from clusterra_lab.kube.programs.go_build import ETCD, KUBERNETES, KWOK
from clusterra_lab.machine.process import until

BUILD = """
import asyncio
from clusterra_lab.kube.programs.binaries import ensure_binaries
asyncio.run(ensure_binaries(names=["kubectl"]))
"""

COMPILER = """\
#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"
%s
echo 'echo whole' >> "$2"
chmod 755 "$2"
"""
"""A stand-in for `go build`, which writes the program in two parts."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("CLUSTERRA_CACHE", str(cache))
    monkeypatch.delenv(GIVEN, raising=False)
    return cache


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.setenv(GIVEN, str(given))
    return given


def put(folder: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, *, meanwhile: str = "") -> None:
    put(folder, "go", COMPILER % meanwhile)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")


async def test_a_folder_from_the_environment_is_used_if_it_has_all_programs(given: Path) -> None:
    for name in CONTROL_PLANE:
        put(given, name)
    assert await ensure_binaries(names=CONTROL_PLANE) == given
    assert can_have_binaries(CONTROL_PLANE)


async def test_a_folder_from_the_environment_is_not_used_if_it_lacks_a_program(
    given: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(given, "kube-apiserver")
    compiler(cache.with_name("compiler"), monkeypatch)
    folder = await ensure_binaries(names=["kubectl", "kube-apiserver"])
    assert folder.parent == cache
    assert sorted(path.name for path in folder.iterdir()) == ["kube-apiserver", "kubectl"]


async def test_without_go_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    assert not can_have_binaries(BINARIES)
    with pytest.raises(BinariesNotBuilt, match=rf"(?s)kubectl is built .* install the Go .* {GIVEN}"):
        await ensure_binaries(names=["kubectl"])


async def test_a_failed_build_is_reported_with_the_compilers_output(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(cache.with_name("compiler"), monkeypatch, meanwhile="echo no such module; exit 3")
    with pytest.raises(BinariesNotBuilt, match=r"(?s)go build ended with exit code 3 .*no such module.*GOPROXY"):
        await ensure_binaries(names=["kubectl"])


async def test_a_killed_build_leaves_no_partial_program_and_the_next_build_succeeds(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(cache.with_name("compiler"), monkeypatch, meanwhile="sleep 60")
    builder = await asyncio.create_subprocess_exec(sys.executable, "-c", BUILD)
    try:
        (half,) = await until(lambda: list(cache.glob("*.building/kubectl")), seconds=90, what="half a program")
    finally:
        builder.send_signal(signal.SIGKILL)
        await builder.wait()

    folder = half.parent.with_suffix("")

    assert not folder.exists()

    compiler(cache.with_name("compiler"), monkeypatch)
    programs = await ensure_binaries(names=["kubectl"])

    assert (programs / "kubectl").read_text() == "#!/bin/sh\necho whole\n"
    assert (folder / "kubectl").samefile(programs / "kubectl")
    assert sorted(path.suffix for path in cache.iterdir()) == ["", "", ".lock", ".log"]


async def test_concurrent_builds_build_a_program_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = cache.with_name("builds")
    compiler(cache.with_name("compiler"), monkeypatch, meanwhile=f"echo built >> {builds}; sleep 0.2")
    first, second = await asyncio.gather(*(ensure_binaries(names=["kubectl"]) for _ in range(2)))
    assert first == second
    assert builds.read_text() == "built\n"


async def test_a_new_recipe_rebuilds_only_the_programs_of_its_source(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = cache.with_name("builds")
    compiler(cache.with_name("compiler"), monkeypatch, meanwhile=f'echo "${{2##*/}}" >> {builds}')
    before = await ensure_binaries(names=CONTROL_PLANE)
    monkeypatch.setattr(kube_binaries, "_SOURCES", (replace(ETCD, variables={"main.newer": "yes"}), KUBERNETES, KWOK))

    after = await ensure_binaries(names=CONTROL_PLANE)

    assert after != before, "a running lab keeps the old programs"
    assert sorted(builds.read_text().split()) == sorted([*CONTROL_PLANE, "etcd"])

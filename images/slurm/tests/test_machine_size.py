"""What a worker's machine has, and that one of another size never starts slurmd."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest
from clusterra_contracts.events import MachineSize
from hypothesis import given
from hypothesis import strategies as st
from worker_site import SCRIPTS

MIB = 1024 * 1024
UNLIMITED = {"memory.max": "max", "memory/memory.limit_in_bytes": "9223372036854771712"}
"""File of a cgroup, of version 2 and of version 1 -> what is in it when there is no limit."""
CPUS = len(os.sched_getaffinity(0))
MEMORY_MIB = psutil.virtual_memory().total // MIB


def machine_size(root: Path | None = None, **environment: str) -> MachineSize:
    argv = [str(SCRIPTS / "machine-size"), *([str(root)] if root else [])]
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    cpus, memory_mib, gpus, *model = done.stdout.split()
    return MachineSize(cpus=int(cpus), memory_mib=int(memory_mib), gpus=int(gpus), gpu_model=" ".join(model))


def machine(root: Path, memory_kib: int, limits: dict[str, str]) -> Path:
    """A machine's files, as far as they are read."""
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "meminfo").write_text(f"MemTotal:       {memory_kib} kB\nMemFree:        1 kB\n")
    for name in UNLIMITED:
        file = root / "sys" / "fs" / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if name in limits:
            file.write_text(f"{limits[name]}\n")
    return root


def test_this_machine_has_what_its_kernel_says() -> None:
    size = machine_size()
    assert size.cpus == CPUS
    assert 0 < size.memory_mib <= MEMORY_MIB


def test_what_a_user_wants_of_openmp_is_not_the_machines_size() -> None:
    assert machine_size(OMP_NUM_THREADS="1000", OMP_THREAD_LIMIT="1").cpus == CPUS


@pytest.mark.parametrize("file", [*UNLIMITED, None], ids=str)
def test_memory_without_a_limit_is_the_machines(tmp_path: Path, file: str | None) -> None:
    limits = {file: UNLIMITED[file]} if file else {}
    assert machine_size(machine(tmp_path, 4096 * 1024, limits)).memory_mib == 4096


@given(
    memory_mib=st.integers(1, 2**24),
    limit=st.integers(MIB, 2**60),
    file=st.sampled_from(sorted(UNLIMITED)),
)
def test_memory_is_the_smaller_of_the_machines_and_the_containers(
    tmp_path_factory: pytest.TempPathFactory, memory_mib: int, limit: int, file: str
) -> None:
    root = machine(tmp_path_factory.getbasetemp() / "machine", memory_mib * 1024, {file: str(limit)})
    assert machine_size(root).memory_mib == min(memory_mib, limit // MIB)


def with_gpus(root: Path, *models: str) -> Path:
    """A machine with a GPU of each model, in the driver's words, with its devices and what the driver says of them."""
    machine(root, 4096 * 1024, {})
    (root / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-caps", *(f"nvidia{number}" for number in range(len(models)))):
        (root / "dev" / name).touch()
    for number, model in enumerate(models):
        folder = root / "proc" / "driver" / "nvidia" / "gpus" / f"0000:00:{number:02x}.0"
        folder.mkdir(parents=True)
        told = f"Model: \t\t {model}\n" if model else ""
        (folder / "information").write_text(f"{told}IRQ:   \t\t 45\nDevice Minor: \t {number}\n")
    return root


def nvidia_smi(root: Path, body: str) -> Path:
    file = root / "usr" / "bin" / "nvidia-smi"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return root


def gpus_of(root: Path) -> tuple[int, str]:
    size = machine_size(root)
    return size.gpus, size.gpu_model


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ((), (0, "")),
        (("NVIDIA L4",), (1, "NVIDIA L4")),
        (("NVIDIA A10G",) * 12, (12, "NVIDIA A10G")),
        (("NVIDIA L4", "NVIDIA A10G"), (2, "NVIDIA A10G,NVIDIA L4")),
        (('Weird "$(x)" \\*',), (1, "Weird (x)")),
        (("",), (1, "")),
    ],
)
def test_gpus_are_counted_by_their_devices_and_named_by_the_driver(
    tmp_path: Path, models: tuple[str, ...], expected: tuple[int, str]
) -> None:
    assert gpus_of(with_gpus(tmp_path, *models)) == expected


def test_the_driver_names_no_gpus_that_are_not_the_containers(tmp_path: Path) -> None:
    root = with_gpus(tmp_path, "NVIDIA L4", "NVIDIA L4")
    (root / "dev" / "nvidia0").unlink()
    assert gpus_of(root) == (1, "NVIDIA L4")
    (root / "dev" / "nvidia1").unlink()
    assert gpus_of(root) == (0, "")


def test_nvidia_smi_is_asked_first_and_believed_only_when_it_succeeds(tmp_path: Path) -> None:
    says = '[ "$*" = "--query-gpu=name --format=csv,noheader" ] && echo NVIDIA A100-SXM4-40GB'
    assert gpus_of(nvidia_smi(with_gpus(tmp_path / "well", ""), says)) == (1, "NVIDIA A100-SXM4-40GB")
    fails = "echo NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver; exit 9"
    assert gpus_of(nvidia_smi(with_gpus(tmp_path / "ill", "NVIDIA L4"), fails)) == (1, "NVIDIA L4")


def entrypoint(folder: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """What it says where it does not start slurmd; its termination message is in `folder`."""
    environment = {
        "POD_NAME": "compute-xs-abc",
        "CLUSTERRA_SHAPE": "compute-xs",
        "CLUSTERRA_FAMILY": "compute",
        "CLUSTERRA_CPUS": str(CPUS + 1),
        "CLUSTERRA_MEMORY_MIB": "1",
        "CLUSTERRA_SLURMD_CONF_SERVER": "127.0.0.1:1",
        "CLUSTERRA_TERMINATION_LOG": str(folder / "termination-log"),
        **changes,
    }
    return subprocess.run(
        [SCRIPTS / "slurmd-entrypoint"],
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("cpus", "memory_mib"), [(CPUS + 1, 1), (CPUS, MEMORY_MIB + 1), (CPUS + 1, 10**9)])
def test_a_machine_of_another_size_is_told_in_one_line_of_json(tmp_path: Path, cpus: int, memory_mib: int) -> None:
    done = entrypoint(tmp_path, CLUSTERRA_CPUS=str(cpus), CLUSTERRA_MEMORY_MIB=str(memory_mib))

    assert (done.returncode, done.stdout) == (78, "")

    message = (tmp_path / "termination-log").read_text()
    assert message in done.stderr
    assert message.count("\n") == 1

    told = {name: MachineSize(**size) for name, size in json.loads(message)["misclassified"].items()}
    assert told == {"expected": MachineSize(cpus=cpus, memory_mib=memory_mib), "actual": machine_size()}


def test_it_is_no_worker_either_when_nobody_can_be_told(tmp_path: Path) -> None:
    done = entrypoint(tmp_path, CLUSTERRA_TERMINATION_LOG=str(tmp_path / "none" / "termination-log"))
    assert done.returncode == 78
    assert '{"misclassified": ' in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POD_NAME", None),
        ("POD_NAME", "two words"),
        ("CLUSTERRA_SHAPE", "xs,gpu"),
        ("CLUSTERRA_FAMILY", "compute CPUs=9"),
        ("CLUSTERRA_FAMILY", ""),
        ("CLUSTERRA_CPUS", "0"),
        ("CLUSTERRA_CPUS", "1.5"),
        ("CLUSTERRA_MEMORY_MIB", "-1"),
        ("CLUSTERRA_MEMORY_MIB", None),
        ("CLUSTERRA_WEIGHT", "1 CPUs=9"),
        ("CLUSTERRA_WEIGHT", "0"),
        ("CLUSTERRA_GPUS", "two"),
        ("CLUSTERRA_GPU_MODEL", ""),
        ("CLUSTERRA_GPU_MODEL", "l4:1"),
        ("CLUSTERRA_SLURMD_CONF_SERVER", None),
    ],
)
def test_what_is_missing_or_no_word_is_named(tmp_path: Path, name: str, value: str | None) -> None:
    done = entrypoint(tmp_path, **{"CLUSTERRA_GPUS": "1", "CLUSTERRA_GPU_MODEL": "l4", name: value})
    assert done.returncode == 64
    assert name in done.stderr
    assert not (tmp_path / "termination-log").exists()

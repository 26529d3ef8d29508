"""The size of a worker's machine, and that the entrypoint does not start slurmd on a machine of another size."""

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
"""File of a cgroup, version 2 and version 1 -> its content when there is no limit."""
CPUS = len(os.sched_getaffinity(0))
MEMORY_MIB = psutil.virtual_memory().total // MIB


def machine_size(root: Path | None = None, **environment: str) -> MachineSize:
    argv = [str(SCRIPTS / "machine-size"), *([str(root)] if root else [])]
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    cpus, memory_mib, gpus, *model = done.stdout.split()
    return MachineSize(cpus=int(cpus), memory_mib=int(memory_mib), gpus=int(gpus), gpu_model=" ".join(model))


def machine(root: Path, memory_kib: int, limits: dict[str, str]) -> Path:
    """Write the files of a machine that the script reads."""
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "meminfo").write_text(f"MemTotal:       {memory_kib} kB\nMemFree:        1 kB\n")
    for name in UNLIMITED:
        file = root / "sys" / "fs" / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if name in limits:
            file.write_text(f"{limits[name]}\n")
    return root


def test_the_size_of_this_machine_is_that_of_its_kernel() -> None:
    size = machine_size()
    assert size.cpus == CPUS
    assert 0 < size.memory_mib <= MEMORY_MIB


def test_openmp_variables_do_not_change_the_number_of_cpus() -> None:
    assert machine_size(OMP_NUM_THREADS="1000", OMP_THREAD_LIMIT="1").cpus == CPUS


@pytest.mark.parametrize("file", [*UNLIMITED, None], ids=str)
def test_without_a_limit_the_memory_is_that_of_the_machine(tmp_path: Path, file: str | None) -> None:
    limits = {file: UNLIMITED[file]} if file else {}
    assert machine_size(machine(tmp_path, 4096 * 1024, limits)).memory_mib == 4096


@given(
    memory_mib=st.integers(1, 2**24),
    limit=st.integers(MIB, 2**60),
    file=st.sampled_from(sorted(UNLIMITED)),
)
def test_the_memory_is_the_smaller_of_machine_and_limit(
    tmp_path_factory: pytest.TempPathFactory, memory_mib: int, limit: int, file: str
) -> None:
    root = machine(tmp_path_factory.getbasetemp() / "machine", memory_mib * 1024, {file: str(limit)})
    assert machine_size(root).memory_mib == min(memory_mib, limit // MIB)


def with_gpus(root: Path, *models: str) -> Path:
    """Write the files of a machine with one GPU per model: devices, and the driver's information."""
    machine(root, 4096 * 1024, {})
    (root / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-caps", *(f"nvidia{number}" for number in range(len(models)))):
        (root / "dev" / name).touch()
    for number, model in enumerate(models):
        folder = root / "proc" / "driver" / "nvidia" / "gpus" / f"0000:00:{number:02x}.0"
        folder.mkdir(parents=True)
        line = f"Model: \t\t {model}\n" if model else ""
        (folder / "information").write_text(f"{line}IRQ:   \t\t 45\nDevice Minor: \t {number}\n")
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


def test_gpus_of_other_containers_do_not_count(tmp_path: Path) -> None:
    root = with_gpus(tmp_path, "NVIDIA L4", "NVIDIA L4")
    (root / "dev" / "nvidia0").unlink()
    assert gpus_of(root) == (1, "NVIDIA L4")
    (root / "dev" / "nvidia1").unlink()
    assert gpus_of(root) == (0, "")


def test_the_output_of_nvidia_smi_is_preferred_if_it_succeeds(tmp_path: Path) -> None:
    succeeds = '[ "$*" = "--query-gpu=name --format=csv,noheader" ] && echo NVIDIA A100-SXM4-40GB'
    assert gpus_of(nvidia_smi(with_gpus(tmp_path / "well", ""), succeeds)) == (1, "NVIDIA A100-SXM4-40GB")
    fails = "echo NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver; exit 9"
    assert gpus_of(nvidia_smi(with_gpus(tmp_path / "ill", "NVIDIA L4"), fails)) == (1, "NVIDIA L4")


def entrypoint(folder: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run the entrypoint with variables for which it does not start slurmd; `folder` gets the termination message."""
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
def test_a_machine_of_another_size_is_reported_in_one_line_of_json(tmp_path: Path, cpus: int, memory_mib: int) -> None:
    done = entrypoint(tmp_path, CLUSTERRA_CPUS=str(cpus), CLUSTERRA_MEMORY_MIB=str(memory_mib))

    assert (done.returncode, done.stdout) == (78, "")

    message = (tmp_path / "termination-log").read_text()
    assert message in done.stderr
    assert message.count("\n") == 1

    sizes = {name: MachineSize(**size) for name, size in json.loads(message)["misclassified"].items()}
    assert sizes == {"expected": MachineSize(cpus=cpus, memory_mib=memory_mib), "actual": machine_size()}


def test_slurmd_does_not_start_either_if_the_message_cannot_be_written(tmp_path: Path) -> None:
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
def test_a_missing_or_invalid_variable_is_named(tmp_path: Path, name: str, value: str | None) -> None:
    done = entrypoint(tmp_path, **{"CLUSTERRA_GPUS": "1", "CLUSTERRA_GPU_MODEL": "l4", name: value})
    assert done.returncode == 64
    assert name in done.stderr
    assert not (tmp_path / "termination-log").exists()

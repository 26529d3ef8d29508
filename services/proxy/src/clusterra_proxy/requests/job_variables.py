"""The variables that sbatch itself adds to a job's environment. Slurm adds the others when the job starts.

Names and formats are those of sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"; `tests/test_job_variables.py` compares them
with the real sbatch.
"""

import re
from collections.abc import Iterable, Iterator

from clusterra_sbatch.applying import Applied
from clusterra_sbatch.script_job import ScriptJob
from clusterra_sbatch.translations import MULTITHREAD

ANY_NUMBER = 2**16 - 1
"""How Slurm writes that a core may have any number of tasks."""
LAUNCHER = "--external-launcher"

_KEPT = frozenset({"SLURM_UMASK", "SLURM_EXPORT_ENV"})
"""Variables that sbatch leaves as they are when they are given."""
_KEPT_PREFIXES = ("OMPI_", "PRTE_", "HYDRA_", "I_MPI_")
_GPU = re.compile(r"gres[/:]gpu[:=]?(.*)")


def tres_per_task(job: ScriptJob) -> str:
    """Return the resources of each task as sbatch names them: with the CPUs first."""
    given = job.tres_per_task or ""
    names_cpus = any(item.startswith("cpu") for item in given.split(","))
    cpus = f"cpu={job.cpus_per_task}" if job.cpus_per_task and not names_cpus else ""
    return ",".join(filter(None, (cpus, given)))


def add_job_variables(
    environment: Iterable[str], applied: Applied, *, directory: str, host: str, umask: str, component: bool = False
) -> list[str]:
    """Return the environment, as `NAME=value` items, with sbatch's variables in place of given ones of these names.

    `directory` is the one in which sbatch would have been called, `host` the machine, and `umask` that of its shell. A
    component of a heterogeneous job has its options in `component_variables` instead.
    """
    items = list(environment)
    given = {item.partition("=")[0] for item in items}
    own = {**dict(_own_variables(applied, directory, host)), "SLURM_UMASK": umask}
    options = _option_variables(applied)
    # Slurm itself sets this one of a component.
    own |= {name: value for name, value in options.items() if not component or name == "SLURM_TRES_PER_TASK"}
    own = {
        name: value
        for name, value in own.items()
        if name not in given or not (name in _KEPT or name.startswith(_KEPT_PREFIXES))
    }
    return [*(item for item in items if item.partition("=")[0] not in own), *(f"{n}={v}" for n, v in own.items())]


def _own_variables(applied: Applied, directory: str, host: str) -> Iterator[tuple[str, str]]:
    yield "SLURM_SUBMIT_DIR", directory
    yield "SLURM_SUBMIT_HOST", host
    yield "SLURM_PRIO_PROCESS", "0"
    if applied.export is not None and applied.export.upper() != "ALL":
        yield "SLURM_EXPORT_ENV", applied.export
    for name in ("OMPI_MCA_plm_slurm_args", "PRTE_MCA_plm_slurm_args"):
        yield name, LAUNCHER
    for bootstrap, arguments in (
        ("HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXTRA_ARGS"),
        ("I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"),
    ):
        yield bootstrap, "slurm"
        yield arguments, LAUNCHER


def component_variables(components: Iterable[Applied]) -> list[str]:
    """Return, as `NAME=value` items, the options of each component: `SLURM_NTASKS_HET_GROUP_1`, and so on."""
    return [
        f"{name}_{group}_GROUP_{offset}={value}"
        for offset, applied in enumerate(components)
        for name, value in _option_variables(applied).items()
        for group in ("HET", "PACK")
    ]


def _option_variables(applied: Applied) -> dict[str, str]:
    job = applied.job
    options = {
        "SLURM_CPUS_PER_TASK": job.cpus_per_task,
        "SLURM_NTASKS": job.tasks,
        "SLURM_NPROCS": job.tasks,
        "SLURM_NTASKS_PER_NODE": job.tasks_per_node,
        "SLURM_THREADS_PER_CORE": job.threads_per_core,
        "SLURM_NTASKS_PER_CORE": ANY_NUMBER if (applied.hint or "").lower() == MULTITHREAD else job.tasks_per_core,
        "SLURM_NTASKS_PER_SOCKET": job.tasks_per_socket,
        "SLURM_NTASKS_PER_GPU": job.ntasks_per_tres,
        "SLURM_JOB_DEPENDENCY": job.dependency,
        "SLURM_HINT": applied.hint,
        "SLURM_TRES_PER_TASK": tres_per_task(job),
        "SLURM_TRES_BIND": _tres_bind(job.tres_per_task),
        "SLURM_GPUS": _gpus(job.tres_per_job),
        "SLURM_GPUS_PER_NODE": _gpus(applied.gpus_per_node),
        "SLURM_GPUS_PER_SOCKET": _gpus(job.tres_per_socket),
        "SLURM_CPUS_PER_GPU": _gpus(job.cpus_per_tres),
        "SLURM_MEM_PER_GPU": _gpus(job.memory_per_tres),
    }
    return {name: str(value) for name, value in options.items() if value}


def _gpus(tres: str | None) -> str:
    """Return the GPUs of a TRES list in the notation of sbatch's options: `2` or `h100:2`."""
    found = (_GPU.fullmatch(item.strip()) for item in (tres or "").split(","))
    return ",".join(match.group(1).replace("=", ":") or "1" for match in found if match)


def _tres_bind(tres: str | None) -> str:
    """Return the binding that requests of GPUs per task imply: the sum of all types."""
    count = sum(int(text) for item in _gpus(tres).split(",") if (text := item.rpartition(":")[2]).isdigit())
    return f"gres/gpu:per_task:{count}" if count else ""

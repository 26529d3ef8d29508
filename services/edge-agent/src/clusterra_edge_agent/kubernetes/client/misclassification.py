"""Misclassified workers: the machine does not have what the worker's shape promises, and its container says so."""

from clusterra_contracts.events import MachineSize
from clusterra_contracts.identity import Wire
from pydantic import ValidationError

EXIT_CODE = 78
"""Exit code of a worker's container that found its machine misclassified (EX_CONFIG). Its slurmd never started."""


class Misclassification(Wire):
    """The resources that the shape promises, and those that the machine has."""

    expected: MachineSize
    actual: MachineSize

    def __str__(self) -> str:
        with_gpus = self.expected.gpus > 0
        return (
            f"the machine has {_parts(self.actual, with_gpus=with_gpus)},"
            f" but the shape promises {_parts(self.expected, with_gpus=with_gpus)}"
        )


def _parts(size: MachineSize, *, with_gpus: bool) -> str:
    if not with_gpus:
        return f"{size.cpus} CPUs and {size.memory_mib} MiB"
    gpus = f"{size.gpus} GPUs ({size.gpu_model})" if size.gpu_model else f"{size.gpus} GPUs"
    return f"{size.cpus} CPUs, {size.memory_mib} MiB and {gpus}"


class _TerminationMessage(Wire):
    misclassified: Misclassification


def misclassification_of(exit_code: int, message: str) -> Misclassification | None:
    """Reads a misclassification from a termination message, which is JSON then. Returns None for any other end."""
    if exit_code != EXIT_CODE:
        return None
    try:
        return _TerminationMessage.model_validate_json(message).misclassified
    except ValidationError:
        return None

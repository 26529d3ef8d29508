"""What a slurmd's container says at its end when its machine is not what its shape promises."""

from clusterra_contracts.events import MachineSize
from clusterra_contracts.identity import Wire
from pydantic import ValidationError

EXIT_CODE = 78
"""Of a container that refuses to register (EX_CONFIG)."""


class Misclassification(Wire):
    """What the shape promises, and what the machine has."""

    expected: MachineSize
    actual: MachineSize

    def __str__(self) -> str:
        actual, expected = self.actual, self.expected
        return (
            f"its machine has {actual.cpus} CPUs and {actual.memory_mib} MiB,"
            f" and its shape promises {expected.cpus} CPUs and {expected.memory_mib} MiB"
        )


class _LastWords(Wire):
    misclassified: Misclassification


def misclassification_of(exit_code: int, message: str) -> Misclassification | None:
    """That of a container's end; `message` is its termination message, JSON if this is why it ended."""
    if exit_code != EXIT_CODE:
        return None
    try:
        return _LastWords.model_validate_json(message).misclassified
    except ValidationError:
        return None

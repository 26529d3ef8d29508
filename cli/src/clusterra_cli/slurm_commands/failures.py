"""How a command fails: what it prints on stderr, and its exit code."""

AWAY = "Unable to contact slurm controller (connect failure)"
TIMED_OUT = "Socket timed out on send/recv operation"
INVALID_JOB = "Invalid job id specified"
DENIED = "Access/permission denied"


class CommandFailed(Exception):
    """The command ends. The text goes to stderr as it is."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Refused(Exception):
    """The gateway or Slurm refused a request. The text is Slurm's where Slurm has one."""

    def __init__(self, text: str, number: int = 0) -> None:
        super().__init__(text)
        self.number = number


class NotKnown(Refused):
    """There is no such job, node or partition."""

    def __init__(self, text: str = INVALID_JOB, number: int = 2017) -> None:
        super().__init__(text, number)


class Away(Refused):
    """The gateway, or Slurm behind it, does not answer. Nothing is known, which is never the same as an empty list."""

    def __init__(self, text: str = AWAY) -> None:
        super().__init__(text, 1800)

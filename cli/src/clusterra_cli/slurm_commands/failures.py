"""How a command fails: what it prints on stderr, and its exit code."""

AWAY = "Unable to contact slurm controller (connect failure)"
TIMED_OUT = "Socket timed out on send/recv operation"
UNKNOWN = "the answer is lost: look whether it was done before you try again"
"""What is said of a change without an answer. On Slurm's own words for it programs submit again, as another job."""
INVALID_JOB = "Invalid job id specified"
SENTENCES = {
    2006: "Node count specification invalid",
    2014: "Requested node configuration is not available",
    2029: "Invalid feature specification",
    2045: "Invalid account or account/partition combination specified",
    2050: "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
}
"""Slurm's words for those of its numbers with which the gateway refuses: programs decide by the words."""
ACCOUNTING_POLICY = 2050
DENIED = "Access/permission denied"


class CommandFailed(Exception):
    """The command ends. The text goes to stderr as it is."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Refused(Exception):
    """The gateway or Slurm refused a request. The text is Slurm's where Slurm has one."""

    def __init__(self, text: str, number: int = 0, reason: str = "") -> None:
        """`number`: Slurm's own. `reason`: what the gateway says besides, where it refused before Slurm would."""
        super().__init__(text)
        self.number = number
        self.reason = reason


class NotKnown(Refused):
    """There is no such job, node or partition."""

    def __init__(self, text: str = INVALID_JOB, number: int = 2017) -> None:
        super().__init__(text, number)


class Away(Refused):
    """The gateway, or Slurm behind it, does not answer. Nothing is known, which is never the same as an empty list."""

    def __init__(self, text: str = AWAY) -> None:
        super().__init__(text, 1800)

"""What a person is told by mail, as they have chosen."""

from clusterra_contracts.identity import Wire


class Choices(Wire):
    """What a person gets a mail about, besides the jobs whose `--mail-type` asks for it. By default: nothing."""

    jobs_started: bool = False
    """A job of their own starts."""
    jobs_ended: bool = False
    """A job of their own ends, however it does."""
    jobs_failed: bool = False
    """A job of their own fails or reaches its time limit."""
    sessions_ready: bool = False
    """The page of an interactive session of their own can be opened."""
    runs_ended: bool = False
    """A run of a workflow of their own ends."""
    budgets: bool = False
    """A budget reaches a threshold: their own one, and for admins those of accounts and of the workspace."""

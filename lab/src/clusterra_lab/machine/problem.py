"""The base class of the lab's errors."""


class LabProblem(RuntimeError):
    """An error that the user of the lab can fix, not a bug of the lab; the text says how."""

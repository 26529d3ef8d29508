"""What can go wrong with a lab."""


class LabProblem(RuntimeError):
    """Something that whoever uses the lab can do something about; the text says what. No fault of the lab's code."""

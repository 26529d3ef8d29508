"""Errors of the command line itself."""


class WrongUsage(Exception):
    """The command line cannot be understood, or asks for what cannot be done. `hint` says what to do."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.hint = hint

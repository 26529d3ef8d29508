"""The error of all operations on the directory of secrets."""


class SecretsProblem(Exception):
    """A secret cannot be made, brought or read. The text names the file; it never holds a secret."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint

"""Progress on standard error: one line a second at most, and one at the end of each part."""

import time

import typer

EVERY_SECONDS = 1.0


class Progress:
    """Tells how far a command is. Standard output stays for its result."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def tell(self, text: str) -> None:
        """Print the end of a part."""
        self._told_at = time.monotonic()
        typer.echo(text, err=True)

    def count(self, what: str, done: int, total: int | None = None) -> None:
        """Print a count, unless something was printed a moment ago."""
        if time.monotonic() - self._told_at >= EVERY_SECONDS:
            self.tell(f"{what}: {done}" + (f" of {total}" if total is not None else ""))

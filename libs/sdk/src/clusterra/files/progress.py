"""What a copy of files tells while it runs."""


class Progress:
    """Does nothing. A subclass shows what it is interested in; several threads call it."""

    def planned(self, files: int, size: int) -> None:
        """So many files, with so many bytes together, are going to be copied."""

    def moved(self, size: int) -> None:
        """So many bytes were copied; fewer than none where they must be copied again."""

    def finished(self, path: str) -> None:
        """A file is whole. `path` is the one in the bucket."""


SILENT = Progress()

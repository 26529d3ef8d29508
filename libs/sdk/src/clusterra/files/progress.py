"""Progress of a copy."""


class Progress:
    """Does nothing. A subclass shows what it is interested in; several threads call it."""

    def planned(self, files: int, size: int) -> None:
        """The number of files that are going to be copied, and their bytes together."""

    def transferred(self, size: int) -> None:
        """The number of bytes that were just copied; negative where they must be copied again."""

    def finished(self, path: str) -> None:
        """A file is whole. `path` is the one in the bucket."""


SILENT = Progress()

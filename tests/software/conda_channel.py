"""Writes a channel of conda. It runs in an environment of its own, which has rattler and rattler-build.

Argument: a folder that does not exist, for the channel. Its package `greet` needs its package `greeting-words`, and
says in which environment it lies.
"""

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rattler.index import index_fs  # type: ignore[import-not-found]
from rattler_build import assemble_package  # type: ignore[import-not-found]

WORDS = "share/greeting-words.txt"


def pack(channel: Path, name: str, version: str, files: dict[str, str], depends: tuple[str, ...] = ()) -> None:
    """Put one package with these files (path and text) into the channel. A file below `bin` can be run."""
    with TemporaryDirectory() as folder:
        for path, text in files.items():
            file = Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if path.startswith("bin/") else 0o644)
        assemble_package(
            name, version, "noarch", "0", channel / "noarch", files_dir=folder, depends=depends, noarch="generic"
        )


def main(channel: Path) -> None:
    """Write the packages and the index."""
    (channel / "noarch").mkdir(parents=True)
    script = f'#!/bin/sh\nhere="$(cd "$(dirname "$0")/.." && pwd)"\necho "$(cat "$here/{WORDS}") from $here"\n'
    pack(channel, "greet", "1.0", {"bin/greet": script}, ("greeting-words >=2",))
    pack(channel, "greeting-words", "1.0", {WORDS: "old words\n"})
    pack(channel, "greeting-words", "2.0", {WORDS: "greetings\n"})
    asyncio.run(index_fs(channel))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # Threads of rattler may still run after an index, and then crash a Python that ends as usual.
    os._exit(0)

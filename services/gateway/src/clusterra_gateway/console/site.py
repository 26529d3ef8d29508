"""The built console as it is served: read once from its folder, with what is compressed already beside it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

from clusterra_gateway.settings import SettingsFileInvalid

INDEX = "index.html"
ASSETS = "assets"
MAX_FILES = 2000
MAX_BYTES = 64 * 1024**2
"""Of all files together: they are kept in memory."""
NAME = "^[A-Za-z0-9_.@~-]{1,200}$"
"""The syntax of a file's name in `assets`."""
ENCODINGS = MappingProxyType({".br": "br", ".gz": "gzip"})
"""The end of a compressed file's name, and its content coding. The first one that a browser takes is sent."""
OTHER_TYPE = "application/octet-stream"
TYPES = MappingProxyType(
    {
        ".css": "text/css",
        ".html": "text/html",
        ".ico": "image/x-icon",
        ".jpg": "image/jpeg",
        ".js": "text/javascript",
        ".json": "application/json",
        ".map": "application/json",
        ".mjs": "text/javascript",
        ".mp4": "video/mp4",
        ".png": "image/png",
        ".svg": "image/svg+xml",
        ".txt": "text/plain",
        ".wasm": "application/wasm",
        ".webm": "video/webm",
        ".webmanifest": "application/manifest+json",
        ".webp": "image/webp",
        ".woff": "font/woff",
        ".woff2": "font/woff2",
    }
)
"""Not those of the machine: they differ between machines."""


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file that the page loads."""

    content: bytes
    content_type: str
    compressed: Mapping[str, bytes]
    """The same by content coding, the smallest first."""
    digest: str

    @property
    def text(self) -> bool:
        """Whether its content is text, which is in UTF-8."""
        return self.content_type.startswith("text/") or self.content_type.endswith(("json", "xml"))

    @property
    def script(self) -> bool:
        """Whether it is a script, which a page may also start as a worker."""
        return self.content_type == TYPES[".js"]


@dataclass(frozen=True, slots=True)
class Site:
    """The whole console: its page, and the files by their names."""

    page: bytes
    files: Mapping[str, SiteFile]


def load_site(folder: Path | None) -> Site | None:
    """Reads the console; None without a folder. Raises SettingsFileInvalid for a folder without a usable one."""
    if folder is None:
        return None
    try:
        return _load(folder)
    except OSError as error:
        at = error.filename or folder
        raise SettingsFileInvalid(f"console_dir: {at} cannot be read: {error.strerror}") from None


def _load(folder: Path) -> Site:
    # A console without assets is a page alone.
    assets = folder / ASSETS
    paths = sorted(path for path in assets.iterdir() if path.is_file()) if assets.exists() else []
    if len(paths) > MAX_FILES:
        raise SettingsFileInvalid(f"console_dir: {assets} has more than {MAX_FILES} files")
    page, *contents = _read_within([folder / INDEX, *paths])
    read = {path.name: content for path, content in zip(paths, contents, strict=True)}
    for name in read:
        if re.fullmatch(NAME, name) is None:
            raise SettingsFileInvalid(f"console_dir: {name!r} in {assets} is no name that can be served")
    return Site(page, {name: _file(name, read) for name in read if Path(name).suffix not in ENCODINGS})


def _read_within(paths: list[Path]) -> list[bytes]:
    """The contents of these files. Raises OSError, and SettingsFileInvalid where they are larger than MAX_BYTES."""
    contents, left = list[bytes](), MAX_BYTES
    for path in paths:
        with path.open("rb") as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            raise SettingsFileInvalid(f"console_dir: {paths[0].parent} has more than {MAX_BYTES} bytes")
        contents.append(content)
    return contents


def _file(name: str, read: Mapping[str, bytes]) -> SiteFile:
    compressed = {coding: read[name + end] for end, coding in ENCODINGS.items() if name + end in read}
    content_type = TYPES.get(Path(name).suffix.lower(), OTHER_TYPE)
    return SiteFile(read[name], content_type, compressed, blake2b(read[name], digest_size=16).hexdigest())

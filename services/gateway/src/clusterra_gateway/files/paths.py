"""The paths of files as people write them, and the object keys that they stand for. Pure: no S3, no HTTP.

A path is `<area>/<name>/...`, such as `data/run 1/input.csv`. The areas `scripts`, `data` and `outputs` are the
caller's own; `shared` is the whole cluster's. The key of a person's file is `<tenant>/<cluster>/users/<member>/<path>`,
that of a shared one `<tenant>/<cluster>/<path>`. Who a file belongs to comes from the caller's identity and never from
the path, so a path has no way to name another person's files. Names are kept in Unicode's form NFC.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from clusterra_contracts.identity import ClusterRef

Area = Literal["scripts", "data", "outputs", "shared"]
AREAS: tuple[Area, ...] = get_args(Area)
SHARED: Area = "shared"

MAX_KEY_BYTES = 1024
"""S3's bound on a key in UTF-8."""
MAX_NAME_BYTES = 255
"""The bound of file systems on a name: files are staged there."""

_PERCENT_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_PLAIN = re.compile(r"[ -$&-\[\]-~]*")
"""Nothing but printable ASCII without `%` and the backslash: no character of it needs a closer look."""
_MEMBER = re.compile(r"[0-9a-f]{32}")
_SLASHES = frozenset("⁄∕⧸╱⟋\N{SET MINUS}⧵⧹╲⟍")
"""Look like a slash or a backslash, and compatibility forms (NFKC) do not tell."""
_REFUSED_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "an invisible character, such as one that changes the direction of writing",
    "Cn": "a character that Unicode does not define",
    "Co": "a private-use character",
    "Cs": "half a character (a surrogate)",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


class PathRefused(ValueError):
    """A path that no file may have. The text says why; it repeats nothing of the path but a character's code."""


class NoSuchArea(PathRefused):
    """A path outside of the areas, where the caller can reach nothing."""


@dataclass(frozen=True, slots=True)
class FilePath:
    """The checked path of a file, or of a folder: then `name` may be empty, for the area itself."""

    area: Area
    name: str
    """What follows the area, without a slash at either end."""

    @property
    def shown(self) -> str:
        """The path as people write it."""
        return f"{self.area}/{self.name}" if self.name else self.area

    @property
    def file_name(self) -> str:
        """Its last part."""
        return self.name.rpartition("/")[2]


def file_path(text: str) -> FilePath:
    """Check the path of a file. Raises PathRefused, and NoSuchArea for one outside of the areas."""
    path = _checked(text)
    if not path.name:
        raise PathRefused("it names an area and no file in it")
    return path


def folder_path(text: str) -> FilePath:
    """Check the path of a folder, which may end with one slash. Raises as `file_path` does."""
    return _checked(text.removesuffix("/"))


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The keys that one member can reach in a cluster's bucket."""

    ref: ClusterRef
    member_id: str

    def __post_init__(self) -> None:
        # The id comes from our own record; a slash in it would be a way into other people's files.
        if _MEMBER.fullmatch(self.member_id) is None:
            raise ValueError("a member's id is 32 hexadecimal digits")

    def key(self, path: FilePath) -> str:
        """The key of a file. Raises PathRefused for one that is too long."""
        key = f"{self._root(path.area)}{path.area}/{path.name}"
        if (size := len(key.encode())) > MAX_KEY_BYTES:
            raise PathRefused(f"it is {size - MAX_KEY_BYTES} bytes too long")
        return key

    def prefix(self, folder: FilePath) -> str:
        """What the keys of all files in a folder begin with. Raises PathRefused for a folder that can have no files."""
        return f"{self.key(folder)}/" if folder.name else self.key(folder)

    def path(self, key: str) -> FilePath:
        """The path of a key. Raises PathRefused for a key that no path of this member has."""
        for area in AREAS:
            root = f"{self._root(area)}{area}/"
            if key.startswith(root):
                path = file_path(f"{area}/{key.removeprefix(root)}")
                if self.key(path) != key:
                    raise PathRefused("its name is not in Unicode's form NFC")
                return path
        raise NoSuchArea("it is outside of the areas")

    def _root(self, area: Area) -> str:
        cluster = f"{self.ref.tenant}/{self.ref.cluster}/"
        return cluster if area == SHARED else f"{cluster}users/{self.member_id}/"


def _checked(text: str) -> FilePath:
    if len(text) > MAX_KEY_BYTES:
        raise PathRefused(f"it is longer than {MAX_KEY_BYTES} characters")
    if _PLAIN.fullmatch(text) is None:
        for character in text:
            _check_character(character)
        text = unicodedata.normalize("NFC", text)
        if _PERCENT_ENCODED.search(unicodedata.normalize("NFKC", text)):
            raise PathRefused("it is percent-encoded (%XX): write the characters themselves")
    if text.startswith("/"):
        raise PathRefused("it begins with a slash: begin with an area, such as data/")
    area, _, name = text.partition("/")
    if "/" in text:
        for each in name.split("/"):
            _check_name(each)
    if area not in AREAS:
        raise NoSuchArea("it is outside of the areas")
    return FilePath(area, name)


def _check_character(character: str) -> None:
    code = f"U+{ord(character):04X}"
    category = unicodedata.category(character)
    if (refused := _REFUSED_CATEGORIES.get(category)) is not None:
        raise PathRefused(f"it has {refused} ({code})")
    if category == "Zs" and character != " ":
        raise PathRefused(f"it has a space that is not the usual one ({code})")
    if character == "\\":
        raise PathRefused("it has a backslash: separate folders with /")
    if character != "/" and (character in _SLASHES or set("/\\") & set(unicodedata.normalize("NFKC", character))):
        raise PathRefused(f"it has a character that looks like a slash ({code})")


def _check_name(name: str) -> None:
    if not name:
        raise PathRefused("it has an empty name: two slashes in a row, or one at the end")
    if set(unicodedata.normalize("NFKC", name).replace(" ", "")) <= {"."}:
        raise PathRefused("it has a name that is nothing but dots")
    if name != name.strip(" "):
        raise PathRefused("it has a name that begins or ends with a space")
    if unicodedata.category(name[0]).startswith("M"):
        raise PathRefused(f"it has a name that begins with a combining character (U+{ord(name[0]):04X})")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise PathRefused(f"it has a name of more than {MAX_NAME_BYTES} bytes")

"""Contexts: which gateway and which cluster, kept in one file so that a notebook works after `clusterra login`.

The file is `config.toml` in the platform's folder for configuration, or the one that `CLUSTERRA_CONFIG` names. It has
no secret. Each write replaces the whole file, so that a reader never sees a half of it.
"""

import os
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from clusterra.errors import ClusterraError

CONFIG = "CLUSTERRA_CONFIG"
URL = "CLUSTERRA_URL"
CLUSTER = "CLUSTERRA_CLUSTER"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_BYTES = 1024 * 1024
MAX_CONTEXTS = 1000


class ConfigError(ClusterraError):
    """The configuration cannot be read, or lacks something. The text names the file."""


@dataclass(frozen=True, slots=True)
class Context:
    """One gateway, and the cluster of it that is meant where none is named."""

    name: str
    url: str
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts of the file, and which one is used."""

    current: str | None = None
    by_name: Mapping[str, Context] = MappingProxyType({})

    @property
    def chosen(self) -> Context | None:
        """The context that is used; None where there is none."""
        return None if self.current is None else self.by_name.get(self.current)

    def having(self, context: Context, *, use: bool = True) -> "Contexts":
        """The same with this context, in place of one of the same name. `use`: whether it becomes the current one."""
        return Contexts(
            context.name if use else self.current, MappingProxyType({**self.by_name, context.name: context})
        )

    def without(self, name: str) -> "Contexts":
        """The same without this context."""
        left = {each: context for each, context in self.by_name.items() if each != name}
        return Contexts(None if self.current == name else self.current, MappingProxyType(left))

    def using(self, name: str) -> "Contexts":
        """The same with this context as the current one. Raises ConfigError for an unknown name."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise ConfigError(f"there is no context {name!r}; there is {known}")
        return replace(self, current=name)


def path() -> Path:
    """Where the contexts are."""
    given = os.environ.get(CONFIG)
    if given:
        return Path(given).expanduser()
    import platformdirs

    return platformdirs.user_config_path("clusterra") / "config.toml"


def load() -> Contexts:
    """The contexts of the file; none where there is no file. Raises ConfigError, which names the file and the line."""
    place = path()
    try:
        with place.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{place} is longer than {MAX_BYTES} bytes")
    try:
        return _contexts(tomllib.loads(raw.decode()))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{place}, line {line}: it is not UTF-8") from None
    except (tomllib.TOMLDecodeError, ConfigError) as error:
        raise ConfigError(f"{place}{_line_of(error, raw.decode(errors='replace'))}: {error}") from None


def save(contexts: Contexts) -> Path:
    """Write the contexts, readable for their owner alone. Returns the file. Raises ConfigError."""
    place = path()
    write_privately(place, written(contexts).encode())
    return place


def written(contexts: Contexts) -> str:
    """The text of the file."""
    lines = [] if contexts.current is None else [f"current = {_quoted(contexts.current)}", ""]
    for context in contexts.by_name.values():
        lines += [f"[contexts.{context.name}]", f"url = {_quoted(context.url)}"]
        lines += [] if context.cluster is None else [f"cluster = {_quoted(context.cluster)}"]
        lines.append("")
    return "\n".join(lines)


def is_private(url: str) -> bool:
    """Whether nobody else can read what is sent to an address: by TLS, or because it stays on this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def canonical_url(given: str) -> str:
    """The address of a gateway in the form that is compared and stored. Raises ConfigError.

    Its host has lower-case letters, its port is left out where it is the usual one, and no slash is at its end.
    """
    try:
        parts = urlsplit(given.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{given!r} is not an address") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise ConfigError(f"{given!r} is not the address of a gateway, such as https://clusterra.example")
    host = f"[{host}]" if ":" in host else host.lower()
    usual = {"http": 80, "https": 443}[parts.scheme]
    where = host if port in (None, usual) else f"{host}:{port}"
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}"


def write_privately(place: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read. Raises ConfigError."""
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"{place} cannot be written: {error.strerror}") from None


def _contexts(document: Mapping[str, Any]) -> Contexts:
    current = _string(document, "current", "`current`")
    tables = document.get("contexts", {})
    if not isinstance(tables, dict) or len(tables) > MAX_CONTEXTS:
        raise ConfigError("`contexts` must be a table for each context, such as [contexts.work]")
    found = {name: _context(name, table) for name, table in tables.items()}
    if current is not None and current not in found:
        raise ConfigError(f"`current` is {current!r}, but there is no [contexts.{current}]")
    return Contexts(current, MappingProxyType(found))


def _context(name: str, table: object) -> Context:
    if NAME.fullmatch(name) is None:
        raise ConfigError(f"[contexts.{name}]: a name has letters, digits, - and _, at most 64")
    if not isinstance(table, dict):
        raise ConfigError(f"[contexts.{name}] must be a table")
    url = _string(table, "url", f"`url` of [contexts.{name}]")
    if url is None:
        raise ConfigError(f"[contexts.{name}] has no `url`")
    return Context(name, canonical_url(url), _string(table, "cluster", f"`cluster` of [contexts.{name}]"))


def _string(table: Mapping[str, Any], name: str, called: str) -> str | None:
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value or len(value) > 2000):
        raise ConfigError(f"{called} must be a text in quotes")
    return value


def _line_of(error: Exception, text: str) -> str:
    """`, line N` for an error about a table; TOML's own errors name the line by themselves."""
    named = re.search(r"\[contexts\.[^\]]*\]|`current`|`contexts`", str(error))
    if isinstance(error, tomllib.TOMLDecodeError) or named is None:
        return ""
    wanted = named[0].strip("`")
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip().startswith(wanted) or line.strip().startswith(f"[{wanted}"):
            return f", line {number}"
    return ""


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    return '"' + "".join(_escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"

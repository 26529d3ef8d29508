"""Changes of the record in an operator's words: what is created, changed or removed, field by field."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clusterra_gateway.accounts.keyspace import CLUSTERS, IDENTITY_MAPS
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.outbox_item import without_messages

_HASHED = frozenset({"hash"})
_TIMES = frozenset({"read_at", "tried_at"})
"""When an identity source was read: a plan cannot tell when it will be."""
_OF_CHANGES = frozenset({"version", "bound_at"})
"""What counts the changes of a cluster, and tells when it moved. These are no changes themselves."""
_LONGEST = 120
_HIDDEN = "(hidden)"
_USER_INFO = re.compile(r"//[^/?#\s]*@")


@dataclass(frozen=True)
class Change:
    """A change of one item. `fields` maps a name to the old and the new value; None for a missing one."""

    action: str
    what: str
    fields: Mapping[str, tuple[Any, Any]]

    def lines(self) -> list[str]:
        """The change as lines of a diff: `+` for new, `-` for gone, `~` for changed."""
        sign = {"create": "+", "change": "~", "remove": "-"}[self.action]
        lines = [f"{sign} {self.what}"]
        for name, (old, new) in self.fields.items():
            value = _short(new) if self.action == "create" else f"{_short(old)} -> {_short(new)}"
            lines += [] if self.action == "remove" else [f"    {name}: {value}"]
        return lines


def change_of(key: Key, before: Item | None, after: Item | None) -> Change:
    """The change between two states of an item."""
    old, new = _fields(key, before), _fields(key, after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    action = "create" if before is None else "remove" if after is None else "change"
    fields = {name: (masked(old.get(name)), masked(new.get(name))) for name in names}
    return Change(action, _name(key, after or before), fields)


def masked(value: Any) -> Any:
    """A value as it may be printed: without the user and the password in an address."""
    return _USER_INFO.sub(f"//{_HIDDEN}@", value) if isinstance(value, str) else value


def _name(key: Key, item: Item | None) -> str:
    kind, _, rest = key.pk.partition("#")
    match kind:
        case _ if key.pk == CLUSTERS:
            return f"cluster {key.sk.replace('.', '/')}"
        case "tenant" if key.sk.startswith("name#"):
            return f"user name {key.sk.removeprefix('name#')} of tenant {rest}"
        case "tenant" if key.sk.startswith("identity-source#"):
            return f"identity source {key.sk.removeprefix('identity-source#')} of tenant {rest}"
        case "tenant":
            return f"tenant {rest}"
        case "identity-map" if key.sk.startswith("user#"):
            return f"user {key.sk.removeprefix('user#')} of identity source {rest.replace('.', '/')}"
        case "identity-map":
            return f"state of identity source {rest.replace('.', '/')}"
        case "domain":
            return f"domain {rest}"
        case "email":
            return f"invitation of {rest}"
        case "cluster":
            return f"current agent key of {rest.replace('.', '/')}"
        case "agent-key" if item is not None:
            return "agent key of {tenant!s}/{cluster!s}".format_map(item.attributes)
        case _:
            return f"{key.pk} {key.sk}"


def _fields(key: Key, item: Item | None) -> dict[str, Any]:
    if item is None:
        return {}
    content: Mapping[str, Any] = without_messages(item.attributes)
    if key.pk == CLUSTERS:
        binding = json.loads(str(content["binding"]))
        content = {name: value for name, value in binding.items() if name not in _OF_CHANGES}
    if key.pk.startswith(IDENTITY_MAPS):
        content = {name: value for name, value in content.items() if name not in _TIMES}
    return {name: _HIDDEN if name in _HASHED else value for name, value in _flat(content).items()}


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

"""Which resource a filter is about. Nothing is searched: a filter must name the resource by what it is found by."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scim2_models import InvalidFilterException, Resource, ScimFilter
from scim2_models.path import CompareOperator, Comparison, FilterNode, LogicalExpr, LogicalOperator

from clusterra_gateway.accounts.keyspace import ScimKind

type FoundBy = Literal["id", "name", "external"]

_NAMES: Mapping[ScimKind, Mapping[str, FoundBy]] = {
    "user": {"id": "id", "username": "name", "externalid": "external"},
    "group": {"id": "id", "displayname": "name", "externalid": "external"},
}


@dataclass(frozen=True, slots=True)
class Pinned[R: Resource[Any]]:
    """A filter that at most one resource fits: the one that is found `by` this value, if it fits the whole."""

    by: FoundBy
    value: str
    whole: ScimFilter[R]

    def fits(self, resource: R) -> bool:
        """Whether the resource that was found fits the whole filter."""
        return self.whole.match(resource)


def pinned[R: Resource[Any]](text: str, kind: ScimKind, model: type[R]) -> Pinned[R]:
    """Reads a filter. Raises InvalidFilterException, also for one that several resources might fit."""
    bound: type[ScimFilter[R]] = ScimFilter.__class_getitem__(model)
    whole = bound(text)
    for each in _terms(whole.ast):
        by = _NAMES[kind].get(each.attr_path.attr.lower())
        plain = each.attr_path.sub_attr is None and each.attr_path.uri in (None, str(model.__schema__))
        if by is not None and plain and each.op == CompareOperator.eq and isinstance(each.value, str):
            return Pinned(by, each.value, whole)
    name = "userName" if kind == "user" else "displayName"
    raise InvalidFilterException(
        detail=f"compare {name}, externalId or id by `eq`, alone or with others by `and`", filter=text
    )


def _terms(node: FilterNode) -> Iterator[Comparison]:
    """The comparisons that must all hold."""
    if isinstance(node, Comparison):
        yield node
    elif isinstance(node, LogicalExpr) and node.op == LogicalOperator.and_:
        for each in node.terms:
            yield from _terms(each)

"""Bounds what a template in Jinja makes: the rounds of its loops, and the size of its lists.

There the tree of a template gets a filter of ours: `counted` around what a `for` goes through, and `listed` around each
list. Templates themselves cannot name these filters.
"""

from typing import Any

from jinja2 import nodes

from clusterra_templates.pieces import MAX_VALUE


def bounding(tree: nodes.Template) -> nodes.Template:
    """The tree with these filters."""
    for loop in tree.find_all(nodes.For):
        loop.iter = _filtered(loop.iter, "counted")
    _bound_lists(tree)
    return tree


def size_of(items: list[Any] | tuple[Any, ...]) -> int:
    """How many items and characters a list has when it is written; of one above MAX_VALUE, any number above it.

    A list may stand in another one many times: a few lists of lists would fill any memory when they are written.
    """
    size, waiting = 0, list[Any](items)
    while waiting and size <= MAX_VALUE:
        match waiting.pop():
            case str() as text:
                size += len(text)
            case list() | tuple() as inner:
                waiting.extend(inner)
            case dict() as inner:
                waiting += [*inner.keys(), *inner.values()]
        size += 1
    return size


def _bound_lists(node: nodes.Node) -> None:
    for name, value in list(node.iter_fields()):
        if isinstance(value, nodes.Node):
            _bound_lists(value)
            setattr(node, name, _bounded_list(value))
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, nodes.Node):
                    _bound_lists(each)
            setattr(node, name, [_bounded_list(each) for each in value])


def _bounded_list(node: Any) -> Any:
    # The targets of `set` and `for` are tuples, too, and are no values.
    if isinstance(node, nodes.List) or (isinstance(node, nodes.Tuple) and node.ctx == "load"):
        return _filtered(node, "listed")
    return node


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)

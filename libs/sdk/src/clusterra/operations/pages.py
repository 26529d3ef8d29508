"""Pages as one iterator."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType

from pydantic import BaseModel

from clusterra.exchange import Emit, Request, Stream
from clusterra.operations.api import Api

MAX_PAGES = 100_000


def paged[M: BaseModel, T](
    api: Api, request: Request, model: type[M], items: Callable[[M], tuple[Sequence[T], str | None]], limit: int | None
) -> Stream[T]:
    """The items of all pages, each page asked for when it is needed, and at most `limit` of them.

    `items` tells the items of a page and the cursor behind it; a page may have none of them and a cursor. Raises the
    errors of `clusterra.errors`.
    """
    left, cursor = limit, None
    for _ in range(MAX_PAGES):
        if left is not None and left <= 0:
            return
        query = request.query if cursor is None else MappingProxyType({**request.query, "cursor": cursor})
        page = api.parsed(model, (yield from api.ask(replace(request, query=query))))
        found, following = items(page)
        for item in found if left is None else found[:left]:
            yield Emit(item)
        left = None if left is None else left - len(found)
        if following is None or following == cursor:
            return
        cursor = following

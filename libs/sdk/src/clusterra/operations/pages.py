"""Pages as one iterator."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError, model_validator

from clusterra.errors import NotClusterra
from clusterra.exchange import Emit, Request, Stream
from clusterra.model_base import Model
from clusterra.operations.api import Api

MAX_PAGES = 100_000


def paged[M: BaseModel, T](
    api: Api, request: Request, model: type[M], items: Callable[[M], tuple[Sequence[T], str | None]], limit: int | None
) -> Stream[T]:
    """The items of all pages, each page asked for when it is needed, and at most `limit` of them.

    `items` returns the items of a page and the cursor behind it; a page may have none of them and a cursor. Raises the
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
        if following is None:
            return
        if following == cursor:
            raise NotClusterra(api.url, 200, b"a page is followed by itself")
        cursor = following
    raise NotClusterra(api.url, 200, b"a list of pages without an end")


class AnyPage(Model):
    """A page of any route: its one list, which each route names after what is in it, and the cursor behind it."""

    items: tuple[Any, ...]
    cursor: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_items(cls, page: Any) -> Any:
        lists = [each for each in page.values() if isinstance(each, list)] if isinstance(page, dict) else []
        if len(lists) != 1:
            raise ValueError("a page has one list")
        return {"items": lists[0], "cursor": page.get("cursor") or page.get("next_cursor")}


def listed[M: BaseModel](api: Api, model: type[M], request: Request, limit: int | None) -> Stream[M]:
    """The items of all pages of any route that lists something. Raises the errors of `clusterra.errors`."""

    def items(page: AnyPage) -> tuple[Sequence[M], str | None]:
        return [model.model_validate(each) for each in page.items], page.cursor

    try:
        yield from paged(api, request, AnyPage, items, limit)
    except ValidationError as error:
        raise NotClusterra(api.url, 200, str(error.errors(include_url=False)[0]["msg"]).encode()) from None

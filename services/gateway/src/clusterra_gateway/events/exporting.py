"""Exports of events as JSON lines, written page by page as the client reads them.

After each page there is a line with `export`: how many events there were so far, and the cursor with which an export
that breaks off goes on. In the last line the cursor is null. A body without it is not whole, whatever cut it off.
"""

import json
from collections.abc import AsyncIterator

from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see

from clusterra_gateway.events.past import Pages
from clusterra_gateway.http.answers.sse import Permission
from clusterra_gateway.http.answers.streams import CutOff

MEDIA_TYPE = "application/x-ndjson"
PAGE_EVENTS = 500
"""How many events are read from the archive at once."""


async def lines(pages: Pages, read: ReadHistory, viewer: Viewer, permission: Permission) -> AsyncIterator[bytes]:
    """The lines of an export, once its first page is read. Raises RpcFailed; then they raise it, too, and CutOff."""
    # No name for the first page: it would be held until the client has read the last one.
    return _lines(pages, read, await pages(read), viewer, permission)


async def _lines(
    pages: Pages, read: ReadHistory, page: HistoryPage, viewer: Viewer, permission: Permission
) -> AsyncIterator[bytes]:
    count = 0
    while True:
        if not await permission.holds():
            raise CutOff("the caller may not read it any more")
        told = [event for event in page.events if may_see(viewer, event.data)]
        count, cursor = count + len(told), page.cursor
        kept_from = None if page.kept_from is None else page.kept_from.isoformat()
        mark = {"export": {"events": count, "cursor": cursor, "kept_from": kept_from}}
        text = b"".join(event.model_dump_json().encode() + b"\n" for event in told)
        del page, told  # a slow client holds the text alone
        yield text + json.dumps(mark).encode() + b"\n"
        if cursor is None:
            return
        page = await pages(read.model_copy(update={"cursor": cursor}))

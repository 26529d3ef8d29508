"""Cuts a packed list into the parts that a viewer reads. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_rest import REST_PART_BYTES, RestCursor, RestPart

from clusterra_proxy.slurmrestd.relay.blocks import Block, Packer, records_of
from clusterra_proxy.slurmrestd.relay.lists import PackedList


def part_of(packed: PackedList, viewer: Viewer, after: RestCursor | None, warnings: tuple[str, ...] = ()) -> RestPart:
    """Return the part of a list after a record, of at most REST_PART_BYTES. The list may be another one than before."""
    place = (-1, "") if after is None else (after.group, after.key)
    chosen: list[Block] = []
    size, more = 0, False
    for block in packed.blocks:
        if (block.group, block.last) <= place or not type(packed).shows(viewer, block.group):
            continue
        begun = (block.group, block.first) <= place
        for each in _rest(type(packed), block, place) if begun else (block,):
            if chosen and size + each.size > REST_PART_BYTES:
                more = True
                break
            chosen.append(each)
            size += each.size
        if more:
            break
    if packed.omitted:
        warnings = (*warnings, f"{packed.omitted} records are left out: they cannot be read, or are too large")
    return RestPart(
        answer=answer_text(packed.content, viewer.user, warnings),
        listed=packed.LISTED,
        blocks=tuple(each.data.encode() for each in chosen),
        after=chosen[-1].cursor if more else None,
    )


def unchanged(packed: PackedList, viewer: Viewer) -> RestPart:
    """Return what slurmrestd answers when nothing has changed since the time of the query."""
    return RestPart(answer=answer_text(packed.content, viewer.user), listed=packed.LISTED)


def answer_text(content: Mapping[str, Any], user: SlurmUser, warnings: tuple[str, ...] = ()) -> str:
    """Return an answer as JSON, made for this user: slurmrestd gave it to the proxy."""
    meta = content.get("meta")
    told = dict(content) | {"meta": _meta_for(meta if isinstance(meta, dict) else {}, user)}
    known = content.get("warnings")
    told["warnings"] = [
        *(known if isinstance(known, list) else ()),
        *({"description": text, "source": "clusterra"} for text in warnings),
    ]
    return orjson.dumps(told).decode()


def _meta_for(meta: Mapping[str, Any], user: SlurmUser) -> dict[str, Any]:
    return dict(meta) | {"client": {"source": "clusterra", "user": user.name, "group": ""}}


def _rest(model: type[PackedList], block: Block, place: tuple[int, str]) -> tuple[Block, ...]:
    """Return the records of a block after a place. Only a list that was read meanwhile has such blocks."""
    packer = Packer()
    for record in records_of(block):
        packer.add(
            placed for placed in model.place(record) if placed[0] == block.group and (placed[0], placed[1]) > place
        )
    return tuple(packer.blocks())

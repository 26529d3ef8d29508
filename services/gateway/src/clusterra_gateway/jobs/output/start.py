"""Where a read of a job's output begins: at a byte offset, or with its last lines."""

from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import EdgeRequests
from clusterra_gateway.jobs.output.follow import Output

MAX_TAIL_LINES = 10_000
TAIL_BYTES = 4 * LOG_CHUNK_BYTES
"""The last lines are looked for in this many bytes at the end. Lines have no bound, so a tail of them needs one."""
_MAX_CHARACTER_BYTES = 4


async def start_of_tail(edge: EdgeRequests, output: Output, lines: int) -> int:
    """The offset of the first of the last `lines` lines, at most TAIL_BYTES before the end.

    The text behind the last line end counts as a line. It is 0 before the job has written anything, and for an output
    that is restarted during the search. Raises NotFound, and RpcFailed where the edge does not answer.
    """
    try:
        size = (await edge.output(output.ref, output.part(output.job, 0, limit=1))).size
        floor = max(0, size - TAIL_BYTES)
        end, missing = size, lines
        while missing and end > floor:
            begin = max(floor, end - LOG_CHUNK_BYTES)
            chunk = await edge.output(output.ref, output.part(output.job, begin, limit=end - begin))
            if len(chunk.data) < end - begin:
                return 0
            position = len(chunk.data) - (end == size and chunk.data.endswith(b"\n"))
            while missing and (position := chunk.data.rfind(b"\n", 0, position)) >= 0:
                missing -= 1
                if not missing:
                    return begin + position + 1
            if begin == floor > 0:
                return floor + _cut_character(chunk.data)
            end = begin
    except RpcFailed as failed:
        if failed.error.kind != "not_found":
            raise
        return 0
    return end


def _cut_character(data: bytes) -> int:
    """The number of bytes at the start of `data` that end a UTF-8 character begun before."""
    for count, byte in enumerate(data[: _MAX_CHARACTER_BYTES - 1]):
        if byte & 0xC0 != 0x80:
            return count
    return 0

"""Small traces and catalogues for the tests of the simulator."""

from pathlib import Path

SHAPES = """
boot_seconds: 60
shapes:
  - {name: compute-4, family: compute, vcpu: 4, memory_gib: 8, price: 0.145}
  - {name: compute-16, family: compute, vcpu: 16, memory_gib: 32, price: 0.58}
  - {name: memory-4, family: memory, vcpu: 4, memory_gib: 32, price: 0.2142}
  - {name: memory-16, family: memory, vcpu: 16, memory_gib: 128, price: 0.8568}
"""
GIB = 2**30


def plain(number: int, submit: int, run: int, processors: int, limit: int = -1, kb: int = -1) -> str:
    """A line of 18 columns, of user 9; memory is in KB per processor."""
    return f"{number} {submit} -1 {run} {processors} -1 -1 {processors} {limit} {kb} 1 9 1 1 1 -1 -1 -1"


def with_request(number: int, submit: int, run: int, request: str, gib_per_node: float, processors: int = 1) -> str:
    """A line of 21 columns; memory is in bytes per node."""
    memory = int(gib_per_node * GIB)
    return (
        f"{number} {submit} 0 {run} {processors} 1 1024 {processors} 86400 {memory} 1 7 1 1 -1 1 1 1 "
        f"{{1}} q_1d {request}"
    )


def written(folder: Path, *lines: str) -> tuple[Path, Path]:
    """The paths of a trace file with these lines and of a catalogue file."""
    trace, shapes = folder / "trace.swf", folder / "shapes.yaml"
    trace.write_text("\n".join(lines) + "\n")
    shapes.write_text(SHAPES)
    return trace, shapes

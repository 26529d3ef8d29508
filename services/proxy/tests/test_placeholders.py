"""Which records a catalogue needs, and what is between them and those there are: pure."""

from dataclasses import replace

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.shapes import Catalogue, Family, Shape, Size, WorkerSpec
from clusterra_proxy.admission.keeper import ROOM
from clusterra_proxy.admission.placeholders import (
    PER_CALL,
    Difference,
    Placeholder,
    difference,
    same_gres,
    sentinels,
    wanted,
)
from clusterra_proxy.slurmrestd.answers import FutureNode
from clusterra_proxy.slurmrestd.hostlist import expand
from hypothesis import given
from hypothesis import strategies as st

SIZES: tuple[Size, ...] = ("xs", "small", "medium", "large", "xlarge")
FAMILIES: dict[Family, int] = {"compute": 2, "general": 4, "memory": 8}
CATALOGUE = Catalogue(
    shapes=tuple(
        Shape(
            name=f"{family}-{size}",
            family=family,
            size=size,
            vcpu=2 ** (step + 1),
            memory_gib=gib * 2 ** (step + 1),
            usd_per_hour=1,
        )
        for family, gib in FAMILIES.items()
        for step, size in enumerate(SIZES)
    )
)
LARGEST = {f"{family}-xlarge" for family in FAMILIES}
TYPED = Placeholder("gpu", WorkerSpec(cpus=8, memory_mib=8000, features=("gpu",), gres="gpu:h100:4"), 120)
PLAIN = Placeholder("plain", WorkerSpec(cpus=4, memory_mib=8000, features=("plain",)), 3)


def binding(max_workers: int, catalogue: Catalogue = CATALOGUE) -> ClusterBinding:
    return ClusterBinding(
        name="c1",
        slurmrestd_url="http://127.0.0.1:1",
        jwt_key="file:/nowhere",
        operator=SlurmUser(name="operator", uid=2001, gid=2001),
        catalogue=catalogue,
        policy=ScalingPolicy(max_workers=max_workers),
    )


def present(*placeholders: Placeholder, dynamic: bool = True) -> list[FutureNode]:
    state = ("FUTURE", "DYNAMIC_NORM") if dynamic else ("FUTURE",)
    return [
        FutureNode(name=name, state=state, gres=placeholder.worker.gres, extra=OPEN)
        for placeholder in placeholders
        for name in placeholder.names
    ]


def made(todo: Difference) -> set[str]:
    return {name for _, nodes in todo.create for name in expand(nodes)}


@given(st.integers(0, 5000), st.integers(1, 3000))
def test_the_room_is_kept_and_the_largest_shapes_get_most(max_workers: int, room: int) -> None:
    counts = {placeholder.shape: placeholder.count for placeholder in wanted(binding(max_workers), room)}
    assert counts.keys() == {shape.name for shape in CATALOGUE.shapes}
    assert sum(counts.values()) <= max(room, len(counts))
    assert all(1 <= count <= max(max_workers, 1) for count in counts.values())
    assert min(counts[name] for name in LARGEST) >= max(counts.values()) - 1


def test_a_job_of_as_many_nodes_as_there_may_be_workers_is_admitted_by_each_family() -> None:
    counts = {placeholder.shape: placeholder.count for placeholder in wanted(binding(100), 512)}
    assert {counts[name] for name in LARGEST} == {100}
    assert {count for name, count in counts.items() if name not in LARGEST} == {17}


def test_the_shape_with_most_gpus_of_a_model_serves_those_with_fewer() -> None:
    def gpus(name: str, vcpu: int, model: str, count: int) -> Shape:
        fields = {"family": model, "size": "small", "memory_gib": 16, "usd_per_hour": 1}
        return Shape.model_validate({**fields, "name": name, "vcpu": vcpu, "gpu_model": model, "gpu_count": count})

    shapes = [gpus("l4-small", 4, "l4", 1), gpus("l4-large", 48, "l4", 4), gpus("a10g-small", 4, "a10g", 1)]
    catalogue = Catalogue(shapes=(*CATALOGUE.shapes, *shapes))
    counts = {placeholder.shape: placeholder.count for placeholder in wanted(binding(100, catalogue), ROOM)}
    assert {name for name, count in counts.items() if count == 100} == LARGEST | {"l4-large", "a10g-small"}


def test_no_placeholder_has_a_weight() -> None:
    heavy = replace(PLAIN, worker=PLAIN.worker.model_copy(update={"weight": 5}))
    assert (heavy.names, heavy.line("n1")) == (PLAIN.names, PLAIN.line("n1"))


def test_of_equal_shapes_none_is_served_by_the_other() -> None:
    small = CATALOGUE["general-xs"]
    twins = Catalogue(shapes=(small, small.model_copy(update={"name": "general-twin"})))
    assert {placeholder.count for placeholder in wanted(binding(100, twins), 512)} == {100}


def test_what_is_there_needs_nothing() -> None:
    assert not difference((PLAIN, TYPED), present(PLAIN, TYPED))


@given(st.sets(st.sampled_from((*PLAIN.names, *TYPED.names))))
def test_what_is_missing_is_made_by_calls_of_bounded_size(lost: set[str]) -> None:
    todo = difference((PLAIN, TYPED), [node for node in present(PLAIN, TYPED) if node.name not in lost])
    assert made(todo) == lost
    assert all(len(expand(nodes)) <= PER_CALL for _, nodes in todo.create)
    assert (todo.delete, todo.amend) == ((), ())


def test_forgotten_types_are_said_again_and_nothing_is_deleted() -> None:
    forgotten = [node.model_copy(update={"gres": "gpu:4"}) for node in present(TYPED)]
    todo = difference((PLAIN, TYPED), [*present(PLAIN), *forgotten])
    assert {name for nodes, _ in todo.amend for name in expand(nodes)} == set(TYPED.names)
    assert {gres for _, gres in todo.amend} == {"gpu:h100:4"}
    assert (todo.create, todo.delete) == ((), ())


def test_what_takes_no_job_is_opened_and_nothing_is_deleted() -> None:
    closed = [node.model_copy(update={"extra": ""}) for node in present(PLAIN)]
    todo = difference((PLAIN, TYPED), [*closed, *present(TYPED)])
    assert {name for nodes, _ in todo.amend for name in expand(nodes)} == set(PLAIN.names)
    assert (todo.create, todo.delete) == ((), ())


def test_a_changed_shape_has_new_names_and_the_old_ones_go() -> None:
    changed = Placeholder("plain", PLAIN.worker.model_copy(update={"memory_mib": 9000}), 3)
    todo = difference((changed,), present(PLAIN))
    assert made(todo) == set(changed.names)
    assert {name for nodes in todo.delete for name in expand(nodes)} == set(PLAIN.names)


def test_what_is_not_ours_stays() -> None:
    workers = [FutureNode(name="general-1", state=("IDLE", "DYNAMIC_NORM"))]
    assert not difference((), [*workers, *present(PLAIN, dynamic=False)])


def test_a_line_of_slurm_conf() -> None:
    assert TYPED.line("n[1-2]") == "NodeName=n[1-2] CPUs=8 RealMemory=8000 Feature=gpu Gres=gpu:h100:4 State=FUTURE"


@pytest.mark.parametrize(
    ("placeholders", "expected"),
    [
        ((), ()),
        ((PLAIN,), ((PLAIN.last, ""),)),
        ((TYPED,), ((TYPED.last, "gpu:h100:4"),)),
        ((TYPED, PLAIN), ((PLAIN.last, ""), (TYPED.last, "gpu:h100:4"))),
    ],
)
def test_sentinels_are_the_last_record_and_the_last_with_gpus(
    placeholders: tuple[Placeholder, ...], expected: tuple[tuple[str, str], ...]
) -> None:
    assert sentinels(placeholders) == expected


@pytest.mark.parametrize(
    ("shown", "same"),
    [("gpu:h100:4(S:0-1)", True), ("gpu:4", False), ("gpu:a100:4", False), ("", False), ("gpu:h100:4,shard:1", False)],
)
def test_what_slurm_shows_of_resources(shown: str, same: bool) -> None:
    assert same_gres(shown, "gpu:h100:4") is same
    assert same_gres("gpu:1", "gpu")

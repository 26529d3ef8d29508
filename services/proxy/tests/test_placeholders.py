"""The placeholders of a catalogue, and the difference to existing records, without Slurm."""

from dataclasses import replace

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.shapes import Catalogue, Family, Shape, Size, WorkerSpec
from clusterra_proxy.admission.keeper import MAX_PLACEHOLDERS
from clusterra_proxy.admission.placeholders import (
    MAX_NODES_PER_CALL,
    PlaceholderDiff,
    PlaceholderGroup,
    desired_placeholders,
    diff,
    same_gres,
    sentinels,
)
from clusterra_proxy.slurmrestd.answers import FutureNode
from clusterra_proxy.slurmrestd.notation.hostlist import expand
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
TYPED = PlaceholderGroup("gpu", WorkerSpec(cpus=8, memory_mib=8000, features=("gpu",), gres="gpu:h100:4"), 120)
PLAIN = PlaceholderGroup("plain", WorkerSpec(cpus=4, memory_mib=8000, features=("plain",)), 3)


def binding(max_workers: int, catalogue: Catalogue = CATALOGUE) -> ClusterBinding:
    return ClusterBinding(
        name="c1",
        slurmrestd_url="http://127.0.0.1:1",
        jwt_key="file:/nowhere",
        operator=SlurmUser(name="operator", uid=2001, gid=2001),
        catalogue=catalogue,
        policy=ScalingPolicy(max_workers=max_workers),
    )


def existing(*groups: PlaceholderGroup, dynamic: bool = True) -> list[FutureNode]:
    state = ("FUTURE", "DYNAMIC_NORM") if dynamic else ("FUTURE",)
    return [
        FutureNode(name=name, state=state, gres=group.worker.gres, extra=OPEN)
        for group in groups
        for name in group.names
    ]


def created_names(changes: PlaceholderDiff) -> set[str]:
    return {name for _, nodes in changes.create for name in expand(nodes)}


@given(st.integers(0, 5000), st.integers(1, 3000))
def test_the_limit_is_kept_and_the_largest_shapes_get_most(max_workers: int, limit: int) -> None:
    counts = {group.shape: group.count for group in desired_placeholders(binding(max_workers), limit)}
    assert counts.keys() == {shape.name for shape in CATALOGUE.shapes}
    assert sum(counts.values()) <= max(limit, len(counts))
    assert all(1 <= count <= max(max_workers, 1) for count in counts.values())
    assert min(counts[name] for name in LARGEST) >= max(counts.values()) - 1


def test_each_family_admits_a_job_on_the_maximum_number_of_workers() -> None:
    counts = {group.shape: group.count for group in desired_placeholders(binding(100), 512)}
    assert {counts[name] for name in LARGEST} == {100}
    assert {count for name, count in counts.items() if name not in LARGEST} == {17}


def test_the_shape_with_the_most_gpus_of_a_model_covers_the_others() -> None:
    def gpus(name: str, vcpu: int, model: str, count: int) -> Shape:
        fields = {"family": model, "size": "small", "memory_gib": 16, "usd_per_hour": 1}
        return Shape.model_validate({**fields, "name": name, "vcpu": vcpu, "gpu_model": model, "gpu_count": count})

    shapes = [gpus("l4-small", 4, "l4", 1), gpus("l4-large", 48, "l4", 4), gpus("a10g-small", 4, "a10g", 1)]
    catalogue = Catalogue(shapes=(*CATALOGUE.shapes, *shapes))
    counts = {group.shape: group.count for group in desired_placeholders(binding(100, catalogue), MAX_PLACEHOLDERS)}

    assert {name for name, count in counts.items() if count == 100} == LARGEST | {"l4-large", "a10g-small"}


def test_a_workers_weight_does_not_change_its_placeholders() -> None:
    heavy = replace(PLAIN, worker=PLAIN.worker.model_copy(update={"weight": 5}))
    assert (heavy.names, heavy.node_conf("n1")) == (PLAIN.names, PLAIN.node_conf("n1"))


def test_equal_shapes_do_not_cover_each_other() -> None:
    small = CATALOGUE["general-xs"]
    twins = Catalogue(shapes=(small, small.model_copy(update={"name": "general-twin"})))
    assert {group.count for group in desired_placeholders(binding(100, twins), 512)} == {100}


def test_existing_placeholders_need_no_change() -> None:
    assert not diff((PLAIN, TYPED), existing(PLAIN, TYPED))


@given(st.sets(st.sampled_from((*PLAIN.names, *TYPED.names))))
def test_missing_placeholders_are_created_in_bounded_calls(lost: set[str]) -> None:
    changes = diff((PLAIN, TYPED), [node for node in existing(PLAIN, TYPED) if node.name not in lost])
    assert created_names(changes) == lost
    assert all(len(expand(nodes)) <= MAX_NODES_PER_CALL for _, nodes in changes.create)
    assert (changes.delete, changes.amend) == ((), ())


def test_forgotten_gpu_types_are_amended() -> None:
    forgotten = [node.model_copy(update={"gres": "gpu:4"}) for node in existing(TYPED)]
    changes = diff((PLAIN, TYPED), [*existing(PLAIN), *forgotten])
    assert {name for nodes, _ in changes.amend for name in expand(nodes)} == set(TYPED.names)
    assert {gres for _, gres in changes.amend} == {"gpu:h100:4"}
    assert (changes.create, changes.delete) == ((), ())


def test_closed_placeholders_are_amended() -> None:
    closed = [node.model_copy(update={"extra": ""}) for node in existing(PLAIN)]
    changes = diff((PLAIN, TYPED), [*closed, *existing(TYPED)])
    assert {name for nodes, _ in changes.amend for name in expand(nodes)} == set(PLAIN.names)
    assert (changes.create, changes.delete) == ((), ())


def test_a_changed_shape_gets_new_records_and_the_old_ones_are_deleted() -> None:
    changed = PlaceholderGroup("plain", PLAIN.worker.model_copy(update={"memory_mib": 9000}), 3)
    changes = diff((changed,), existing(PLAIN))
    assert created_names(changes) == set(changed.names)
    assert {name for nodes in changes.delete for name in expand(nodes)} == set(PLAIN.names)


def test_foreign_records_are_left_alone() -> None:
    workers = [FutureNode(name="general-1", state=("IDLE", "DYNAMIC_NORM"))]
    assert not diff((), [*workers, *existing(PLAIN, dynamic=False)])


def test_the_slurm_conf_line_of_a_placeholder() -> None:
    assert (
        TYPED.node_conf("n[1-2]") == "NodeName=n[1-2] CPUs=8 RealMemory=8000 Feature=gpu Gres=gpu:h100:4 State=FUTURE"
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), ()),
        ((PLAIN,), ((PLAIN.last_name, ""),)),
        ((TYPED,), ((TYPED.last_name, "gpu:h100:4"),)),
        ((TYPED, PLAIN), ((PLAIN.last_name, ""), (TYPED.last_name, "gpu:h100:4"))),
    ],
)
def test_sentinels_are_the_last_record_and_the_last_with_gpus(
    groups: tuple[PlaceholderGroup, ...], expected: tuple[tuple[str, str], ...]
) -> None:
    assert sentinels(groups) == expected


@pytest.mark.parametrize(
    ("shown", "same"),
    [("gpu:h100:4(S:0-1)", True), ("gpu:4", False), ("gpu:a100:4", False), ("", False), ("gpu:h100:4,shard:1", False)],
)
def test_slurms_notation_of_resources_is_recognized(shown: str, same: bool) -> None:
    assert same_gres(shown, "gpu:h100:4") is same
    assert same_gres("gpu:1", "gpu")

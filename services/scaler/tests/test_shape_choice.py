"""The policy `family`: family by memory per vCPU (<= 3, <= 6, > 6 GiB), size by the family's biggest pending job."""

import pytest
from clusterra_contracts.demand import Need
from clusterra_contracts.gres import Gres
from clusterra_contracts.shape_fit import holds
from clusterra_contracts.shapes import Shape
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes, NoShape, family_of
from fleet_examples import CATALOGUE
from hypothesis import given
from hypothesis import strategies as st

needs = st.builds(
    Need,
    cpus=st.integers(1, 40),
    memory_mib=st.integers(1, 300 * 1024),
    constraint=st.sampled_from(["", "", "", "compute", "general|memory", "memory-large", "nothing-of-this"]),
    exclusive=st.booleans(),
)


def chosen(*asked: Need) -> list[str]:
    """For each need the name of the chosen shape, or the reason why there is none."""
    choices = FamilyShapes(CATALOGUE).choose(asked, CATALOGUE)
    return [choice.name if isinstance(choice, Shape) else choice.reason for choice in choices]


@pytest.mark.parametrize(
    ("gib_per_cpu", "family"),
    [
        (0.1, "compute"),
        (2.99, "compute"),
        (3.0, "compute"),
        (3.01, "general"),
        (4.5, "general"),
        (5.99, "general"),
        (6.0, "general"),
        (6.01, "memory"),
        (20.0, "memory"),
    ],
)
@pytest.mark.parametrize("cpus", [1, 2, 7])
def test_the_family_is_chosen_by_memory_per_cpu(gib_per_cpu: float, family: str, cpus: int) -> None:
    # 3.01 GiB per CPU is not a whole number of MiB: it is rounded up, like a limit.
    need = Need(cpus, -int(-gib_per_cpu * 1024 * cpus // 1))

    assert family_of(need) == family
    assert chosen(need)[0].startswith(family)


def test_the_size_is_chosen_by_the_biggest_pending_job_of_the_family() -> None:
    small, big, other = Need(1, 1024), Need(9, 9 * 1024), Need(1, 4 * 1024)
    assert chosen(small) == ["compute-xs"]
    assert chosen(small, big, other) == ["compute-large", "compute-large", "general-xs"]


def test_the_size_has_enough_memory_for_the_job() -> None:
    # The family for 3 GiB per CPU is compute, whose workers have 2 GiB per CPU: so memory determines the size.
    assert chosen(Need(4, 12 * 1024)) == ["compute-medium"]


def test_a_job_too_big_for_its_family_gets_another_one() -> None:
    assert chosen(Need(32, 6 * 32 * 1024)) == ["memory-xlarge"]
    assert chosen(Need(32, 3 * 32 * 1024)) == ["general-xlarge"]


def test_a_constraint_is_met_and_does_not_affect_the_size_for_other_jobs() -> None:
    pinned = Need(1, 1024, "general-large")

    assert chosen(pinned, Need(1, 4 * 1024)) == ["general-large", "general-xs"]
    assert chosen(Need(1, 1024, "memory")) == ["memory-xs"]
    assert chosen(Need(2, 20 * 1024, "compute")) == ["compute-large"]


def test_the_reason_why_no_shape_fits() -> None:
    assert chosen(Need(33, 1024)) == ["no shape has 33 CPUs and 1024 MiB on one node"]
    assert chosen(Need(1, 1024, "spot")) == ["no shape has the features 'spot'"]
    assert chosen(Need(1, 1024, gres=(Gres("gpu:h100", 1),))) == ["no shape has gpu:h100:1"]
    assert chosen(Need(1, 1024, node="w1")) == ["it asks for the node w1, which no new worker can be"]
    assert chosen(Need(1, 0, unreadable="a b")) == ["what it asks for cannot be honoured: a b"]


@given(st.lists(needs, max_size=12))
def test_the_chosen_shape_fits_the_job_and_meets_its_constraint(asked: list[Need]) -> None:
    for need, choice in zip(asked, FamilyShapes(CATALOGUE).choose(asked, CATALOGUE), strict=True):
        if isinstance(choice, NoShape):
            assert need.constraint or not any(holds(shape, need) for shape in CATALOGUE.shapes)
        else:
            assert holds(choice, need)
            assert not need.constraint or set(need.constraint.split("|")) & set(choice.worker.features)


@given(st.lists(needs, min_size=1, max_size=12), st.randoms())
def test_the_order_of_the_queue_does_not_matter(asked: list[Need], random: object) -> None:
    shuffled = asked.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    in_order = dict(zip(asked, chosen(*asked), strict=True))

    assert dict(zip(shuffled, chosen(*shuffled), strict=True)) == in_order

"""The order of visits: fair between clusters and tenants, bounded, and each place has its turn."""

from collections import Counter

from clusterra_runtime.sweeps.agenda import Agenda, Bounds, Place
from hypothesis import given
from hypothesis import strategies as st

PLACES = st.builds(
    Place,
    tenant=st.sampled_from(["acme", "rival", "third"]),
    cluster=st.sampled_from(["a", "b", "c"]),
    record=st.sampled_from([str(number) for number in range(6)]),
    routine=st.booleans(),
)
ROUNDS = st.lists(st.lists(PLACES, unique=True, max_size=40), min_size=1, max_size=5)
BOUNDS = st.builds(Bounds, at_once=st.integers(1, 6), per_cluster=st.integers(1, 3))
SILENT = st.frozensets(st.tuples(st.sampled_from(["acme", "rival"]), st.sampled_from(["a", "b", "c"])))


@given(bounds=BOUNDS, rounds=ROUNDS, silent=SILENT, ended=st.data())
def test_visits_stay_within_their_bounds_and_each_place_has_its_turn(
    bounds: Bounds, rounds: list[list[Place]], silent: frozenset[tuple[str, str]], ended: st.DataObject
) -> None:
    agenda, under_way, known_silent = Agenda(bounds), list[Place](), set[tuple[str, str]]()
    began_silent = set[Place]()

    for places in rounds:
        agenda.begin_round(places)
        known_silent &= {place.group for place in places}
        expected, visited = set(places) - set(under_way), set[Place]()
        while True:
            taken = agenda.take()
            visited.update(taken)
            began_silent.update(place for place in taken if place.group in known_silent)
            under_way += taken
            assert len(under_way) == len(set(under_way)) <= bounds.at_once
            assert max(Counter(place.group for place in under_way).values(), default=0) <= bounds.per_cluster
            assert max(Counter(place.tenant for place in under_way).values(), default=0) <= bounds.per_tenant
            assert len(began_silent) <= bounds.silent_at_once
            if not under_way:
                break
            place = under_way.pop(ended.draw(st.integers(0, len(under_way) - 1)))
            began_silent.discard(place)
            agenda.end(place, failed=place.group in silent)
            (known_silent.add if place.group in silent else known_silent.discard)(place.group)
        assert visited == expected


@given(many=st.integers(2, 200), few=st.integers(1, 5), at_once=st.integers(2, 16))
def test_a_tenant_with_many_places_keeps_nobody_waiting(many: int, few: int, at_once: int) -> None:
    agenda = Agenda(Bounds(at_once, per_cluster=at_once))
    places = [Place("acme", f"c{number}", "x") for number in range(many)]
    places += [Place("rival", "main", f"{number}") for number in range(few)]

    agenda.begin_round(places)
    taken = Counter(place.tenant for place in agenda.take())

    assert taken["rival"] >= min(few, at_once // 2)


def test_a_tenant_whose_clusters_are_all_slow_leaves_room_for_the_others() -> None:
    agenda = Agenda(Bounds(at_once=8))
    slow = [Place("acme", f"c{number}") for number in range(20)]
    agenda.begin_round(slow)
    hanging = agenda.take()

    agenda.begin_round([*slow, Place("rival", "main")])

    assert len(hanging) == 6
    assert agenda.take() == [Place("rival", "main")]


def test_silent_clusters_leave_half_of_the_visits_to_those_that_answer() -> None:
    agenda = Agenda(Bounds(at_once=4))
    silent = [Place(f"t{number}", "c", "run") for number in range(20)]
    agenda.begin_round(silent)
    while taken := agenda.take():
        for place in taken:
            agenda.end(place, failed=True)

    agenda.begin_round(silent)
    hanging = agenda.take()
    agenda.begin_round([*silent, Place("well", "c", "run")])

    assert len(hanging) == 2
    assert agenda.take() == [Place("well", "c", "run")]


def test_it_is_remembered_who_was_silent_where_rounds_have_only_few_places() -> None:
    silent, other = [Place("acme", f"silent{number}") for number in range(8)], Place("acme", "other")
    begun = list[int]()
    for remembers in (False, True):
        agenda = Agenda(Bounds(8, most_silent=2, most_of_tenant=7, remembers_silent=remembers))
        for place in silent:
            agenda.begin_round([place])
            assert agenda.take() == [place]
            agenda.end(place, failed=True)
        agenda.begin_round([other])
        assert agenda.take() == [other]
        agenda.end(other, failed=False)
        agenda.begin_round(silent)
        begun.append(len(agenda.take()))

    assert begun == [7, 2]


def test_after_two_failures_the_other_records_of_a_cluster_wait_for_the_next_round() -> None:
    agenda, visited = Agenda(Bounds(at_once=4, failures_in_a_round=2)), list[Place]()
    places = [Place("acme", "main", f"{number}") for number in range(5)]

    for _ in range(2):
        agenda.begin_round(places)
        while taken := agenda.take():
            for place in taken:
                visited.append(place)
                agenda.end(place, failed=True)

    # The second round begins with those that the first left over.
    assert len(visited) == len(set(visited)) == 4


def test_urgent_places_come_before_routine_ones() -> None:
    agenda = Agenda(Bounds(at_once=16, per_cluster=4))
    urgent = {Place("acme", "main", "new"), Place("acme", "main", "over")}
    routine = [Place("acme", "main", f"{number}", routine=True) for number in range(1000)]

    agenda.begin_round([*routine, *urgent])
    taken = agenda.take()

    assert len(taken) == 4
    assert urgent <= set(taken)


def test_a_place_that_an_event_names_during_its_visit_is_visited_again() -> None:
    agenda, place = Agenda(Bounds(at_once=2)), Place("acme", "main")
    agenda.begin_round([place])
    agenda.take()

    agenda.begin_round([place], woken=True)
    agenda.begin_round([place])
    during = agenda.take()
    agenda.end(place, failed=False)

    assert during == []
    assert agenda.take() == [place]
    agenda.end(place, failed=False)
    assert agenda.take() == []

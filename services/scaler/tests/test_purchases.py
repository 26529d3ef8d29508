"""The history of purchases, by job."""

from clusterra_scaler.explain.purchases import PurchaseHistory
from clusterra_scaler.planner.decide import decide
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from explanation_examples import empty_cluster
from fleet_examples import NOW, START, at, group, snapshot


def test_purchases_are_kept_while_their_jobs_are_present() -> None:
    view = empty_cluster(group("1", "2", cpus=2))
    later = Observation(view.binding, snapshot((group("2", cpus=2), group("3", cpus=8))), view.edge, at(NOW + 10))

    decision = decide(view, FleetState.initial(START), ObservationHistory())
    first = PurchaseHistory().after(decision, view.snapshot)
    second_decision = decide(later, decision.state, decision.observation_history)
    both = first.after(second_decision, later.snapshot)

    assert first.last(["2"]) == first.last(["1", "99"])
    assert first.last(["99"]) == ()
    assert set(both.by_job) == {"2", "3"}
    assert both.last(["2"])[0].decided_at == at(NOW)
    assert both.last(["3"])[0].decided_at == at(NOW + 10)


def test_a_decision_without_purchases_changes_nothing() -> None:
    view = empty_cluster(group("1"))
    decision = decide(view, FleetState.initial(START), ObservationHistory())
    purchases = PurchaseHistory().after(decision, view.snapshot)

    unchanged = decide(view, decision.state, decision.observation_history)

    assert purchases.after(unchanged, view.snapshot) is purchases

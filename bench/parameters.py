"""Compares the packing's parameters with the best ones for each half of a trace.

Parameters fitted to one part of a trace do worse on another. So each parameter is varied alone, on both halves; then
all values that gain most on a half are combined.

Prints a table row after each simulation and, last, one JSON line: for each half the ratio of the current parameters,
the best ratio found, the values that give it, and the difference of the two.
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from clusterra_planner_tools.simulate import catalogue as catalogues
from clusterra_planner_tools.simulate import trace as traces
from clusterra_planner_tools.simulate.catalogue import Catalogue, CatalogueUnreadable
from clusterra_planner_tools.simulate.simulation import NothingFits, Options, simulate
from clusterra_planner_tools.simulate.trace import Trace
from clusterra_scaler.planner.estimates.settings import LearningSettings
from clusterra_scaler.planner.packing.settings import Settings

type Change = dict[str, Any]
"""Changed parameters: name -> value."""

AROUND: dict[str, Sequence[float]] = {
    "credit": (0.25, 0.3, 0.5, 0.6),
    "batch_seconds": (0.0, 15.0, 60.0),
    "local_search": (False,),
    "trials": (1_250, 20_000),
    "history_weight": (1.0, 2.0, 8.0),
    "first_hazard": (0.05, 0.1, 0.25),
}
LEARNING = {each.name for each in fields(LearningSettings)}
HALVES = ("first half", "second half")


def ratio(trace: Trace, catalogue: Catalogue, change: Change) -> float:
    """Cost divided by its lower bound, with learned run times."""
    of_learning = {name: value for name, value in change.items() if name in LEARNING}
    of_packing = {name: value for name, value in change.items() if name not in LEARNING}
    options = Options(
        "packing", settings=replace(Settings(), **of_packing), learning=replace(LearningSettings(), **of_learning)
    )
    return simulate(trace, catalogue, options).figures.ratio


def ratios(halves: Sequence[Trace], catalogue: Catalogue, trials: Sequence[tuple[int, Change]]) -> list[float]:
    """The ratio of each trial, which is the number of a half and a change; prints a table row for each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        futures = [pool.submit(ratio, halves[half], catalogue, change) for half, change in trials]
        for (half, change), future in zip(trials, futures, strict=True):
            print(f"{HALVES[half]:12} {future.result():.4f}  {in_words(change)}", flush=True)
        return [future.result() for future in futures]


def in_words(change: Change) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in change.items()) or "as they are"


def compared(trace: Trace, catalogue: Catalogue) -> dict[str, object]:
    """The comparison for each half."""
    halves = trace.halves()
    single: list[Change] = [{}, *({name: value} for name, values in AROUND.items() for value in values)]
    trials = [(half, change) for change in single for half in (0, 1)]
    of_trials = ratios(halves, catalogue, trials)
    found = [
        {in_words(change): (value, change) for (at, change), value in zip(trials, of_trials, strict=True) if at == half}
        for half in (0, 1)
    ]
    together = [best_of_each(of_half) for of_half in found]
    for half, value in enumerate(ratios(halves, catalogue, list(enumerate(together)))):
        found[half][in_words(together[half])] = value, together[half]
    answer: dict[str, object] = {}
    for name, of_half in zip(HALVES, found, strict=True):
        own, (best, change) = of_half[in_words({})][0], min(of_half.values(), key=lambda each: each[0])
        answer[name] = {
            "ratio": round(own, 4),
            "best": round(best, 4),
            "by": change,
            "beyond_best": round(own - best, 4),
        }
    return answer


def best_of_each(of_half: dict[str, tuple[float, Change]]) -> Change:
    """The combination of all parameters that gain when varied alone, each at its best value."""
    own, _ = of_half[in_words({})]
    together: Change = {}
    for name in AROUND:
        best, change = min((each for each in of_half.values() if name in each[1]), key=lambda each: each[0])
        if best < own:
            together |= change
    return together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, help="a trace in the Standard Workload Format")
    parser.add_argument("shapes", type=Path, help="YAML with a list `shapes`")
    arguments = parser.parse_args()
    try:
        catalogue = catalogues.read(arguments.shapes)
        trace = traces.read(arguments.trace, "auto", catalogue.most_cpus)
        found = compared(trace, catalogue)
    except (traces.TraceUnreadable, traces.BadPeriod, CatalogueUnreadable, NothingFits) as error:
        raise SystemExit(str(error)) from None
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""The parameters of the run-time estimates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Parameters of the run-time model, near their best on each of several traces, so that none needs tuning."""

    history_weight: float = 4.0
    """Weight of the prior: how many jobs of its own a history needs to count as much as the wider history it
    refines."""

    first_hazard: float = 0.15
    """Hazard of each age bin before any job was observed: the chance that a job which reaches the bin ends in it. It
    means a median run time of some 20 minutes with a long tail."""

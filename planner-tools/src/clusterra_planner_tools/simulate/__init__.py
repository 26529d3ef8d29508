"""The planner on a virtual clock, run against traces of real clusters."""

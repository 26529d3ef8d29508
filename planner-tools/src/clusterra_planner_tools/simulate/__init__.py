"""The planner on a virtual clock, against traces of real clusters."""

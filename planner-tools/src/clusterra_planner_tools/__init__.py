"""The planner without a service: simulated on traces, and replayed from decision logs."""

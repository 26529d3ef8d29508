"""The planner without the service: simulated on traces, and replayed from decision logs."""

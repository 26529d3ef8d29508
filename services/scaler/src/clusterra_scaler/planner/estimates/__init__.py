"""What is learned from the past: run times, provisioning latency, idle gaps."""

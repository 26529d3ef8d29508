"""Templates of jobs: those of the installation and of tenants, rendered and submitted; and schedules of them."""

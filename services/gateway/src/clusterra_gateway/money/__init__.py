"""What jobs cost and may cost: costs, budgets, and quotas."""

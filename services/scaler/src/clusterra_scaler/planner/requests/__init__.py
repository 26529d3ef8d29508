"""Which pending jobs are demand for nodes, and what running jobs cost."""

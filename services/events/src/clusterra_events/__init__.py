"""Archives every Clusterra event once and answers history."""

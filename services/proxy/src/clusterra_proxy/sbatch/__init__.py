"""`#SBATCH` directives, parsed as sbatch parses them."""

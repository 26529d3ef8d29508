"""`#SBATCH` lines, read as sbatch reads them."""

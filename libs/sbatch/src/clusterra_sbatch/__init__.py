"""The options of scripts, read and checked as sbatch does it, without Slurm and without input or output.

The public interface:

- `parsing.parse(script)` returns the script's options, also those of `#PBS` and `#BSUB` lines: each has its line
  number, its option and its value.
- `checking.check(script, now=..., denied=...)` returns every problem and every warning of a script, each with its line
  number and its reason. `denied` names the options that a script must not have.
- `checking.check_denied(names)` raises ValueError for a deny list that names no option of sbatch.
- `applying.apply(script, job, now=...)` returns the job with the script's directives applied.
- `job_values.check_values(job)` raises ValueError for values that no job can have, whichever way they came.
- `node_counts.parse(text)` reads how many nodes a job wants.
- `options.LONG` and `options.SHORT` are all options of sbatch, by name.

`parse` and `apply` raise `problems.InvalidScript`, whose text and `problems` name the lines.
"""

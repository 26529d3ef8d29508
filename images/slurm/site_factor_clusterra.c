/*
 * PrioritySiteFactorPlugin=site_factor/clusterra of slurm.conf: starts Slurm's main scheduler at each submit.
 *
 * sbatch and slurmrestd only queue a job. Without this plugin, slurmctld looks at the queue when its clock shows the next
 * full second, or when its backfill thread wakes up, also once a second: a job waits for up to a second beside an idle
 * worker. Slurm has no setting below one second.
 *
 * slurmctld calls site_factor_p_set when a job gets its priority: at its submit, its release and its requeue. It holds
 * the lock of the jobs then, so the scheduler, which runs in its own thread, starts when that job is in the queue.
 * sched_min_interval bounds how often it runs. No priority is changed.
 *
 * It needs no header: schedule() is what Slurm's own plugins could call as well. If a later Slurm has no such function,
 * nothing happens.
 */
const char plugin_name[] = "Starts the scheduler when a job gets its priority";
const char plugin_type[] = "site_factor/clusterra";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;

extern void schedule(_Bool full_queue) __attribute__((weak));

int init(void)
{
	return 0;
}

void fini(void)
{
}

void site_factor_p_set(void *job)
{
	(void) job;
	if (schedule)
		schedule(0);
}

void site_factor_p_update(void)
{
}

/*
 * A SPANK plugin of plugstack.conf(5): runs a program as root on the worker when a step begins, before its first task.
 *
 *   optional /usr/lib/clusterra/spank_clusterra_names.so /usr/lib/clusterra/note-names
 *
 * Users have no accounts on a worker. slurmstepd knows the names of the user and of their groups from the job's signed
 * credential, and note-names asks for them. No script of slurm.conf could: Slurm's prolog runs before slurmstepd, and
 * its task prolog runs as the user.
 *
 * It needs no header. On a login node, where sbatch and srun load it too, it does nothing.
 */
const char plugin_name[] = "clusterra_names";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

struct spank_handle;
extern int spank_remote(struct spank_handle *spank);
extern int system(const char *command);

int slurm_spank_init_post_opt(struct spank_handle *spank, int count, char **arguments)
{
	if (spank_remote(spank) == 1 && count == 1)
		/* A job whose names are missing runs nevertheless. */
		(void) !system(arguments[0]);
	return 0;
}

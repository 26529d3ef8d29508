/** The address of a job's page, for links that are not the router's own. */
export function jobAddress(cluster: string, job: string): string {
  return `/c/${encodeURIComponent(cluster)}/jobs/${encodeURIComponent(job)}`;
}

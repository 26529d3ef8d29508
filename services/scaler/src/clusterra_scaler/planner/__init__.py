"""From the observation of a cluster to its desired state. Pure: time is an argument, and nothing is sent.

`decide` is the entry point and lists the steps of a decision; `targets` and `changes` make its result. The rooms,
each of which imports only those before it:

- `requests`: what pending jobs ask for, and whether new nodes would start them
- `estimates`: what is learned from the past (run times, provisioning latency, idle gaps)
- `packing`: bin packing by expected cost
- `observed`: what is known of the cluster now, joined into one `context` per decision
- `placement`: the policies, which place jobs on workers and buy workers
- `scale_down`: which workers are drained, released and forgotten
"""

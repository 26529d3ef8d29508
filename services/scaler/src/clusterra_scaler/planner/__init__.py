"""From what is seen of a cluster to what is desired. Pure: time comes in as an argument, and nothing goes out.

`decision` is the way in. What it goes through, in this order:

- what is known: `seen` (what others told), `sightings` (since when), `state` (what outlives a scaler), `run_history`
- demand: `demand` of `constraints` and `gres`, only where `reasons` says that nodes would help
- supply: `supply`, with `boots` and `ghosts` for workers that are not there yet
- what may be bought: `allowance`, and of shapes that can be had: `capacity`, `breakers`, `failover`
- the plan (`plan`): by `first_fit` with `shapes`, or by `packing_plan` with `bookings`, `workloads`, `fleet_rooms`,
  `fleet_filling`, `claims`, `refusals`, `buyable` of `job_costs`, and the arithmetic of `packing`
- what may go: `floor`, `idleness`, `reuse`, `keeping`, `moves`, `release`, `retire`
- in words: `changes`
"""

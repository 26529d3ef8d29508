-- JobSubmitPlugins=lua of slurm.conf, beside which it lies: says of each job in which class it is, so that nodes can be
-- closed to it.
--
-- With SchedulerParameters=extra_constraints Slurm holds a job's `--extra` against the JSON in a node's Extra. Each job
-- is given `open=1|CLASS=1`. Nodes register with `{"open":1}`, so everything runs everywhere until somebody closes a
-- node to all but some classes, with `{"open":0,"CLASS":1}`. Those with GPUs register closed.
--
-- The class is spelled like `u20001.t12.c4.m8.n1` and depends only on what was submitted. Some jobs have none and so may
-- run on any node:
-- - Components of a heterogeneous job. Slurm starts them one by one, and when a node is closed to the last of them it
--   gives up the others for two minutes.
-- - Jobs for nodes by name and for reservations. Slurm lets a job wait that is refused by all nodes there are only as
--   long as one that is to come (`State=FUTURE`) would take it; else it holds the job.
-- - Jobs with an `--extra` of their own: no placeholder has what they ask for, so that Slurm would hold them.
-- - Jobs of several nodes and those with generic resources. Of a job with an expression Slurm does not say at once that
--   it has too few such nodes, too few GPUs on a node or none of that type: it lets the job wait.
--
-- No job is refused here, and a mistake here leaves it as it was submitted. slurmctld reads a changed file by itself.

-- nil for what was not said.
local function said(value)
  if value == slurm.NO_VAL or value == slurm.NO_VAL16 then
    return nil
  end
  return value
end

-- A number for a text, the same each time.
local function checksum(text)
  local sum = 0
  for place = 1, #text do
    sum = (sum * 31 + text:byte(place)) % 4294967296
  end
  return string.format("%08x", sum)
end

-- nil for a job that shall have none. Else: user, time limit (its power of two in seconds), CPUs, memory (whole GiB,
-- rounded up) and nodes; `x` stands for what else decides where the job may run. What was not said is left out.
local function class(job)
  if job.het_job_offset ~= slurm.NO_VAL or (said(job.min_nodes) or 1) > 1 then
    return nil
  end
  for _, name in ipairs({ "req_nodes", "reservation", "extra" }) do
    if job[name] and job[name] ~= "" then
      return nil
    end
  end
  for _, name in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }) do
    -- sbatch says `--cpus-per-task` once more in tres_per_task.
    if job[name] and job[name]:find("gres", 1, true) then
      return nil
    end
  end
  -- `--ntasks-per-gpu` leaves its GPUs in no list.
  if said(job.ntasks_per_tres) then
    return nil
  end

  local tasks = said(job.num_tasks) or said(job.ntasks_per_node) or 1
  local cpus = math.max(said(job.min_cpus) or 0, said(job.pn_min_cpus) or 0, tasks * (said(job.cpus_per_task) or 1))
  local parts = { string.format("u%d", job.user_id) }

  local limit_minutes = said(job.time_limit)
  if limit_minutes then
    parts[#parts + 1] = string.format("t%d", math.floor(math.log(math.max(limit_minutes, 1) * 60) / math.log(2) + 0.5))
  end

  parts[#parts + 1] = string.format("c%d", cpus)

  local memory_mib = job.min_mem_per_node
  if job.min_mem_per_cpu then
    memory_mib = job.min_mem_per_cpu * cpus
  end
  if memory_mib then
    parts[#parts + 1] = string.format("m%d", math.ceil(memory_mib / 1024))
  end

  parts[#parts + 1] = "n1"

  local besides = {}
  for _, name in ipairs({ "features", "partition" }) do
    if job[name] and job[name] ~= "" then
      besides[#besides + 1] = name .. "=" .. job[name]
    end
  end
  if said(job.shared) then
    besides[#besides + 1] = string.format("shared=%d", job.shared)
  end
  if #besides > 0 then
    parts[#parts + 1] = "x" .. checksum(table.concat(besides, " "))
  end

  return table.concat(parts, ".")
end

local function classify(job)
  local its_class = class(job)
  if its_class then
    job.extra = "open=1|" .. its_class .. "=1"
    -- Slurm would not say at once either that no node has so many CPUs, unless it is asked for them in these words.
    if job.max_nodes == 1 and said(job.min_cpus) then
      job.pn_min_cpus = math.max(said(job.pn_min_cpus) or 1, job.min_cpus)
    end
  end
end

-- A job keeps the class that it was submitted with, whatever is changed of it.
local function keep_class(changes, job)
  local class_expression = string.match(job.extra or "", "open=1|[%w.]+=1")
  if changes.extra and class_expression and not string.find(changes.extra, class_expression, 1, true) then
    if changes.extra == "" then
      changes.extra = class_expression
    else
      changes.extra = "(" .. changes.extra .. ")&(" .. class_expression .. ")"
    end
  end
end

local function try(change, ...)
  local done, why = pcall(change, ...)
  if not done then
    slurm.log_error("job_submit.lua: a job is left without a class: %s", tostring(why))
  end
  return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, submit_uid)
  return try(classify, job)
end

function slurm_job_modify(changes, job, partitions, submit_uid)
  return try(keep_class, changes, job)
end

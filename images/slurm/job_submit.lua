-- JobSubmitPlugins=lua of slurm.conf, in the same folder: gives each job a class, so that nodes can be closed to it.
--
-- With SchedulerParameters=extra_constraints Slurm evaluates a job's `--extra` on the JSON in a node's Extra. This script
-- gives each job the expression `open=1|CLASS=1`. Nodes register with `{"open":1}`, so every job runs on every node. The
-- scaler closes a node to all but some classes with `{"open":0,"CLASS":1}`. Nodes with GPUs register closed.
--
-- A class looks like `u20001.t12.c4.m8.n1` and depends only on the submitted job. Some jobs have no class and so can run
-- on any node:
-- - Components of a heterogeneous job. Slurm starts them one by one; if the last one finds its nodes closed, Slurm gives
--   up the others for two minutes.
-- - Jobs that name nodes or a reservation. If no existing node accepts a job, Slurm lets it wait only while a future node
--   (`State=FUTURE`) would accept it; otherwise it holds the job.
-- - Jobs with their own `--extra`: no placeholder satisfies it, so Slurm would hold them.
-- - Jobs of several nodes and jobs with generic resources. For a job with an expression, Slurm does not report at submit
--   that it has too few such nodes, too few GPUs on a node, or no GPUs of that type: it lets the job wait.
--
-- It also gives plain sbatch the umask of the site: the job's files are closed to others unless its user says otherwise.
-- sbatch tells the umask of its shell, and 0022 is that of a shell in which nobody has set one. The variable
-- CLUSTERRA_UMASK of slurmctld names another one than 0077. Jobs of the proxy have that of their cluster's binding.
--
-- It rejects a job whose user has no name: the user has no token, and slurmctld knows no such uid. Slurm would accept the
-- job and then hold it for ever. It rejects the jobs of a user whose default account is `clusterra-deactivated`: Clusterra
-- sets that for people who may submit no more. It rejects no other job, and an error in it leaves the job unchanged.
-- slurmctld rereads a changed file by itself.

local UMASK = os.getenv("CLUSTERRA_UMASK") or "0077"
local DEFAULT_SHELL_UMASK = "0022"
local DEACTIVATED = "clusterra-deactivated"

-- The bytes of an option that a class depends on. slurmctld does nothing else meanwhile, and an option may be of any length.
local MAX_OPTION_BYTES = 4096

-- The value, or nil if the user gave none.
local function value_or_nil(value)
  if value == slurm.NO_VAL or value == slurm.NO_VAL16 then
    return nil
  end
  return value
end

-- A stable hash of a text.
local function checksum(text)
  local sum = 0
  for place = 1, #text do
    sum = (sum * 31 + text:byte(place)) % 4294967296
  end
  return string.format("%08x", sum)
end

-- The beginning of a longer value, with its length.
local function shortened(value)
  if #value <= MAX_OPTION_BYTES then
    return value
  end
  return string.format("%s#%d", value:sub(1, MAX_OPTION_BYTES), #value)
end

-- The class of a job, or nil if it has none. Its parts: user, time limit (as a power of two, in seconds), CPUs, memory
-- (GiB, rounded up) and nodes; `x` is a hash of other options that restrict the nodes. Options not given are left out.
local function class(job)
  if job.het_job_offset ~= slurm.NO_VAL or (value_or_nil(job.min_nodes) or 1) > 1 then
    return nil
  end
  for _, name in ipairs({ "req_nodes", "reservation", "extra" }) do
    if job[name] and job[name] ~= "" then
      return nil
    end
  end
  for _, name in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }) do
    -- sbatch repeats `--cpus-per-task` in tres_per_task, so only gres counts here.
    if job[name] and job[name]:find("gres", 1, true) then
      return nil
    end
  end
  -- The GPUs of `--ntasks-per-gpu` are in none of these lists.
  if value_or_nil(job.ntasks_per_tres) then
    return nil
  end

  local tasks = value_or_nil(job.num_tasks) or value_or_nil(job.ntasks_per_node) or 1
  local cpus = math.max(value_or_nil(job.min_cpus) or 0, value_or_nil(job.pn_min_cpus) or 0, tasks * (value_or_nil(job.cpus_per_task) or 1))
  local parts = { string.format("u%d", job.user_id) }

  local limit_minutes = value_or_nil(job.time_limit)
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

  local others = {}
  for _, name in ipairs({ "features", "partition" }) do
    if job[name] and job[name] ~= "" then
      others[#others + 1] = name .. "=" .. shortened(job[name])
    end
  end
  if value_or_nil(job.shared) then
    others[#others + 1] = string.format("shared=%d", job.shared)
  end
  if #others > 0 then
    parts[#parts + 1] = "x" .. checksum(table.concat(others, " "))
  end

  return table.concat(parts, ".")
end

local function classify(job)
  local job_class = class(job)
  if job_class then
    job.extra = "open=1|" .. job_class .. "=1"
    -- Without this, Slurm would not report at submit that no node has so many CPUs, either.
    if job.max_nodes == 1 and value_or_nil(job.min_cpus) then
      job.pn_min_cpus = math.max(value_or_nil(job.pn_min_cpus) or 1, job.min_cpus)
    end
  end
end

-- Keep the class that a job was submitted with, whatever changes.
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

local function close_files(job)
  local of_proxy = string.sub(job.comment or "", 1, 10) == "clusterra:"
  if not of_proxy and job.environment and job.environment.SLURM_UMASK == DEFAULT_SHELL_UMASK then
    job.environment.SLURM_UMASK = UMASK
  end
end

local function try(change, ...)
  local done, why = pcall(change, ...)
  if not done then
    slurm.log_error("job_submit.lua: a job is left as it is: %s", tostring(why))
  end
  return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, submit_uid)
  if not job.user_name then
    slurm.log_user("Slurm knows no user with the uid %d: set SLURM_JWT to a token of the user", job.user_id)
    return slurm.ERROR
  end
  if job.default_account == DEACTIVATED then
    slurm.log_user("%s is deactivated: ask an admin of your workspace", job.user_name)
    return slurm.ERROR
  end
  try(close_files, job)
  return try(classify, job)
end

function slurm_job_modify(changes, job, partitions, submit_uid)
  return try(keep_class, changes, job)
end

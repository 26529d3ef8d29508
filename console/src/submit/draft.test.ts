import { expect, test } from "vitest";
import { firstDraft, onlyTask, rerunOf, submission, withFile, wouldReplace } from "./draft";

test("a draft that is there gets a file of the address, once, and keeps what is written", () => {
  const written = { ...firstDraft(), script: "#!/bin/bash\nmine\n", folder: "mine", files: [{ source: "a/one", destination: "one" }] };
  const given = withFile(written, "b/two");
  expect(given).toEqual({ ...written, files: [...written.files, { source: "b/two", destination: "two" }] });
  expect(withFile(given, "b/two")).toBe(given);
});

test("a script asks only before it replaces what somebody wrote", () => {
  const first = firstDraft();
  expect(wouldReplace(first, "old")).toBe(false);
  expect(wouldReplace({ ...first, script: " \n" }, "old")).toBe(false);
  expect(wouldReplace({ ...first, script: "old" }, "old")).toBe(false);
  expect(wouldReplace({ ...first, script: "mine" }, "old")).toBe(true);
  expect(wouldReplace({ ...first, files: [{ source: "a", destination: "a" }] }, "old")).toBe(true);
});

test("a task of an array is run again alone, and the whole array whole", () => {
  const script = "#!/bin/bash\n#SBATCH --array=1-12%4 --time=5\necho $SLURM_ARRAY_TASK_ID\n";
  const one = rerunOf(script, "9_3");
  expect(one.script).toBe("#!/bin/bash\n#SBATCH --array=3 --time=5\necho $SLURM_ARRAY_TASK_ID\n");
  expect(onlyTask(one)).toEqual({ job: "9", task: 3 });
  expect(onlyTask({ ...one, script })).toBeNull();
  const whole = rerunOf(script, "9");
  expect(whole).toEqual({ ...firstDraft(), script });
  expect(onlyTask(whole)).toBeNull();
});

test("the array of a task may be no option of its script", () => {
  expect(rerunOf("#!/bin/sh\ntrue\n", "9_0").script).toBe("#!/bin/sh\n#SBATCH --array=0\ntrue\n");
});

test("a task that runs alone is a field of the job, which wins over lines that the form does not read", () => {
  const script = "#!/bin/bash\n#PBS -J 0-999\n#SBATCH --time=5\n";
  expect(submission(rerunOf(script, "42_7")).job).toMatchObject({ array: "7" });
  expect(submission(rerunOf(script, "42")).job).not.toHaveProperty("array");
  expect(submission({ ...rerunOf(script, "42_7"), script }).job).not.toHaveProperty("array");
});

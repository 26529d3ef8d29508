import { expect, test } from "vitest";
import { actionChoices } from "./actions";

const labels = (choices: readonly { label: string }[]) => choices.map(({ label }) => label);

test("each group of actions is offered in English, in alphabetical order", () => {
  const { groups } = actionChoices([], undefined);

  expect(labels(groups)).toEqual(labels(groups).toSorted((one, other) => one.localeCompare(other)));
  for (const group of ["action.", "schedule.", "token.", "job.", "scim."]) expect(groups.map(({ value }) => value)).toContain(group);
  expect(groups.find(({ value }) => value === "token.")?.label).toBe("All token actions");
  expect(labels(groups).filter((label) => label.startsWith("All of "))).toEqual([]);
});

test("single actions are those of the entries, and the one that is chosen", () => {
  const entries = [{ action: "token.revoked" }, { action: "action.cancel" }, { action: "token.revoked" }];

  expect(labels(actionChoices(entries, "budget.deleted").single)).toEqual(["action.cancel", "budget.deleted", "token.revoked"]);
  expect(labels(actionChoices(entries, "token.").single)).toEqual(["action.cancel", "token.revoked"]);
});

import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { forgetDraft, LARGEST_DRAFT, MOST_DRAFTS, readDraft, withoutSecrets, writeDraft } from "./drafts";

function storage(): Storage {
  const kept = new Map<string, string>();
  return {
    get length() {
      return kept.size;
    },
    key: (index) => [...kept.keys()][index] ?? null,
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
    clear: () => kept.clear(),
  };
}

const place = { person: "ada", cluster: "main", name: "submit" };

describe("drafts", () => {
  it("are read as they were written, by the same person on the same cluster", () => {
    const kept = storage();
    expect(writeDraft(kept, place, "text \u202e", 1)).toBe(true);
    expect(readDraft(kept, place, v.string())).toBe("text \u202e");
    expect(readDraft(kept, { ...place, person: "eve" }, v.string())).toBeNull();
    expect(readDraft(kept, { ...place, cluster: "other" }, v.string())).toBeNull();
    expect(readDraft(kept, place, v.number())).toBeNull();
    forgetDraft(kept, place);
    expect(readDraft(kept, place, v.string())).toBeNull();
  });

  it("are bounded in size and in number: the oldest goes", () => {
    const kept = storage();
    expect(writeDraft(kept, place, "x".repeat(LARGEST_DRAFT), 1)).toBe(false);
    for (let number = 0; number < MOST_DRAFTS + 5; number += 1) {
      writeDraft(kept, { ...place, name: `template.${number}` }, String(number), number);
    }
    writeDraft(kept, { ...place, person: "eve" }, "hers", 0);
    expect(kept.length).toBe(MOST_DRAFTS + 1);
    expect(readDraft(kept, { ...place, name: "template.4" }, v.string())).toBeNull();
    expect(readDraft(kept, { ...place, name: "template.5" }, v.string())).toBe("5");
    expect(readDraft(kept, { ...place, person: "eve" }, v.string())).toBe("hers");
  });

  it("that nobody can read are none", () => {
    const kept = storage();
    kept.setItem("clusterra:draft:ada:main:submit", "{");
    expect(readDraft(kept, place, v.string())).toBeNull();
    expect(writeDraft(kept, place, "a", 1)).toBe(true);
  });

  it("keep no value of a variable that is named as a secret, and all else", () => {
    const environment = "PATH=/bin\nAWS_SECRET_ACCESS_KEY=a=b\nhf_token = x \nexport DB_PASSWORD=\nMY_SECRET=s\nKEYS=1\nTOKEN_FILE=/x\nKEY=k";
    expect(withoutSecrets(environment)).toBe(
      "PATH=/bin\nAWS_SECRET_ACCESS_KEY\nhf_token\nexport DB_PASSWORD\nMY_SECRET\nKEYS=1\nTOKEN_FILE=/x\nKEY",
    );
  });
});

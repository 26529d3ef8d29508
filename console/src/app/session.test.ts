import type { QueryClient } from "@tanstack/react-query";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { forgetPerson, isOfPage, notePerson, notePersonGoesOn, watchPerson } from "./session";

/** A storage whose keys are properties as well, as in a browser. */
function storage(): Storage {
  const own = {
    getItem: (key: string) => kept[key] ?? null,
    setItem: (key: string, value: string) => void (kept[key] = value),
    removeItem: (key: string) => void delete kept[key],
    clear: () => Object.keys(kept).forEach((key) => delete kept[key]),
  };
  const kept = Object.create(own) as Record<string, string>;
  return kept as unknown as Storage;
}

let told: (event: Partial<StorageEvent>) => void;

beforeEach(() => {
  vi.stubGlobal("localStorage", storage());
  vi.stubGlobal("sessionStorage", storage());
  vi.stubGlobal("window", { addEventListener: (_: string, listener: typeof told) => (told = listener) });
});

function page(id: string | undefined) {
  const changed = vi.fn();
  watchPerson({ getQueryData: () => (id === undefined ? undefined : { id }) } as unknown as QueryClient, changed);
  const hear = (key: string | null) => told({ key, storageArea: localStorage });
  return { changed, hear };
}

describe("the person of a browser", () => {
  it("is somebody else than the one before, also after a sign-out", () => {
    expect(notePerson("ada")).toBe(false);
    expect(notePerson("ada")).toBe(false);
    localStorage.setItem("clusterra:draft:ada", "hers");
    localStorage.setItem("clusterra.rail-folded", "true");
    expect(notePerson("eve")).toBe(true);
    expect(Object.keys(localStorage).toSorted()).toEqual(["clusterra.person", "clusterra.rail-folded"]);
    forgetPerson();
    expect(notePerson("ada")).toBe(true);
    expect(notePerson("ada")).toBe(false);
  });

  it("is told to the pages of somebody else, and to no other", () => {
    const { changed, hear } = page("ada");
    notePerson("ada");
    hear("clusterra.person");
    hear("clusterra:draft:ada");
    expect(changed).not.toHaveBeenCalled();
    notePersonGoesOn("ada-in-globex");
    localStorage.setItem("clusterra:draft:ada", "hers");
    hear("clusterra.person");
    expect(changed).toHaveBeenCalledTimes(1);
    expect(localStorage.getItem("clusterra:draft:ada")).toBe("hers");
  });

  it("is the one whom a page was loaded for, whatever another tab has noted", () => {
    expect(isOfPage("ada")).toBe(true);
    notePerson("eve");
    expect(notePerson("eve")).toBe(false);
    expect(isOfPage("eve")).toBe(false);
    expect(isOfPage("ada")).toBe(true);
  });

  it("who has signed out is forgotten by the pages that hear of it", () => {
    const { changed, hear } = page("ada");
    notePerson("ada");
    forgetPerson();
    localStorage.setItem("clusterra:draft:ada", "written a moment too late");
    hear("clusterra.person");
    expect(changed).toHaveBeenCalledTimes(1);
    expect(localStorage.getItem("clusterra:draft:ada")).toBeNull();
  });

  it("is not yet known to a page that is being loaded, which hears of nobody else", () => {
    const { changed, hear } = page(undefined);
    notePerson("eve");
    hear(null);
    expect(changed).not.toHaveBeenCalled();
  });
});

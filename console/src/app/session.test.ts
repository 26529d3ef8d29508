import type { QueryClient } from "@tanstack/react-query";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { forgetUser, isOfPage, rememberUser, rememberTenantSwitch, watchSignedInUser } from "./session";

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
  watchSignedInUser({ getQueryData: () => (id === undefined ? undefined : { id }) } as unknown as QueryClient, changed);
  const hear = (key: string | null) => told({ key, storageArea: localStorage });
  return { changed, hear };
}

describe("the person of a browser", () => {
  it("is somebody else than the one before, also after a sign-out", () => {
    expect(rememberUser("ada")).toBe(false);
    expect(rememberUser("ada")).toBe(false);
    localStorage.setItem("clusterra:draft:ada", "hers");
    localStorage.setItem("clusterra.rail-folded", "true");
    expect(rememberUser("eve")).toBe(true);
    expect(Object.keys(localStorage).toSorted()).toEqual(["clusterra.person", "clusterra.rail-folded"]);
    forgetUser();
    expect(rememberUser("ada")).toBe(true);
    expect(rememberUser("ada")).toBe(false);
  });

  it("is told to the pages of somebody else, and to no other", () => {
    const { changed, hear } = page("ada");
    rememberUser("ada");
    hear("clusterra.person");
    hear("clusterra:draft:ada");
    expect(changed).not.toHaveBeenCalled();
    rememberTenantSwitch("ada-in-globex");
    localStorage.setItem("clusterra:draft:ada", "hers");
    hear("clusterra.person");
    expect(changed).toHaveBeenCalledTimes(1);
    expect(localStorage.getItem("clusterra:draft:ada")).toBe("hers");
  });

  it("is the one whom a page was loaded for, whatever another tab has noted", () => {
    expect(isOfPage("ada")).toBe(true);
    rememberUser("eve");
    expect(rememberUser("eve")).toBe(false);
    expect(isOfPage("eve")).toBe(false);
    expect(isOfPage("ada")).toBe(true);
  });

  it("who has signed out is forgotten by the pages that hear of it", () => {
    const { changed, hear } = page("ada");
    rememberUser("ada");
    forgetUser();
    localStorage.setItem("clusterra:draft:ada", "written a moment too late");
    hear("clusterra.person");
    expect(changed).toHaveBeenCalledTimes(1);
    expect(localStorage.getItem("clusterra:draft:ada")).toBeNull();
  });

  it("is not yet known to a page that is being loaded, which hears of nobody else", () => {
    const { changed, hear } = page(undefined);
    rememberUser("eve");
    hear(null);
    expect(changed).not.toHaveBeenCalled();
  });
});

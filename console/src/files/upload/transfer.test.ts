import { afterEach, expect, test, vi } from "vitest";
import { api } from "../../api/client";
import { ProblemError } from "../../api/problem";
import { upload, type Source } from "./transfer";

vi.mock("./hash", () => ({ sha256: () => Promise.resolve("digest") }));
vi.mock("./send", () => ({ withRetries: (_: AbortSignal, act: () => unknown) => act(), put: () => Promise.resolve() }));
afterEach(() => void vi.restoreAllMocks());

const SIZE = 65 * 1024 * 1024;

/** A file of that size, of which nothing is read. */
function source(key: string): Source {
  const file = { size: SIZE, slice: (begin: number, end: number) => ({ size: end - begin }) } as unknown as File;
  return { cluster: "main", path: "data/large", file, key };
}

/** A gateway where the upload that a key has begun is gone, and that answers with it as often as the key comes. */
function gateway(goneKey: string): { keys: string[]; completed: string[] } {
  const told = { keys: [] as string[], completed: [] as string[] };
  const answer = (data: unknown) => Promise.resolve({ data, response: new Response(null) });
  vi.spyOn(api, "GET").mockImplementation((() => answer({ uploads: [] })) as unknown as typeof api.GET);
  const post = (path: string, { params }: { params: { path: { upload_id?: string }; header?: { "Idempotency-Key": string } } }) => {
    const key = params.header?.["Idempotency-Key"] ?? "";
    const id = params.path.upload_id ?? "";
    if (path.endsWith("/uploads")) {
      told.keys.push(key);
      return answer({ upload_id: key === goneKey ? "gone" : "new", part_size: SIZE });
    }
    if (id === "gone") return Promise.reject(new ProblemError({ type: "about:blank", title: "", status: 404, detail: "", request_id: "" }));
    if (path.endsWith("/complete")) told.completed.push(id);
    return answer({ urls: [{ url: "http://bucket.test/part", headers: {} }] });
  };
  vi.spyOn(api, "POST").mockImplementation(post as unknown as typeof api.POST);
  return told;
}

test("an upload that is gone is begun anew under another key", async () => {
  const told = gateway("first-key");
  const given = source("first-key");
  await upload(given, new AbortController().signal, () => undefined);
  expect(told.keys).toHaveLength(2);
  expect(told.keys[1]).not.toBe("first-key");
  expect(told.completed).toEqual(["new"]);
  expect(given.key).toBe(told.keys[1]);
});

test("an upload that is there is begun once", async () => {
  const told = gateway("another-key");
  await upload(source("first-key"), new AbortController().signal, () => undefined);
  expect(told.keys).toEqual(["first-key"]);
  expect(told.completed).toEqual(["new"]);
});

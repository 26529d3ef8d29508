import { InfiniteQueryObserver, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { queryClient, refetchQuery, refetchQueries } from "./queries";

test("a page that is opened again reads again what it shows", async () => {
  const queries = queryClient(() => undefined);
  const queryFn = vi.fn(() => Promise.resolve(1));
  for (let opened = 1; opened <= 2; opened += 1) {
    const observer = new QueryObserver(queries, { queryKey: ["runs"], queryFn });
    const leave = observer.subscribe(() => undefined);
    await vi.waitFor(() => expect(observer.getCurrentResult().isFetching).toBe(false));
    expect(queryFn).toHaveBeenCalledTimes(opened);
    leave();
  }
});

test("a read that is asked for ends none that is under way, and begins after it", async () => {
  const queries = queryClient(() => undefined);
  const signals: AbortSignal[] = [];
  const ends: (() => void)[] = [];
  const queryFn = ({ signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return new Promise<number>((resolve) => ends.push(() => resolve(signals.length)));
  };
  const observer = new QueryObserver(queries, { queryKey: ["run"], queryFn });
  const leave = observer.subscribe(() => undefined);
  const reads = [refetchQuery(observer.getCurrentResult()), refetchQueries(queries, ["run"])];
  ends[0]?.();
  await vi.waitFor(() => expect(ends).toHaveLength(2));
  ends[1]?.();
  await Promise.all(reads);
  expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  leave();
});

test("a list of pages is read again after the page that is on its way", async () => {
  const queries = queryClient(() => undefined);
  const asked: number[] = [];
  const observer = new InfiniteQueryObserver(queries, {
    queryKey: ["pages"],
    queryFn: ({ pageParam }) => Promise.resolve(asked.push(pageParam) && pageParam),
    initialPageParam: 0,
    getNextPageParam: (page: number) => page + 1,
  });
  const leave = observer.subscribe(() => undefined);
  await vi.waitFor(() => expect(observer.getCurrentResult().isSuccess).toBe(true));
  void observer.fetchNextPage();
  await refetchQuery(observer.getCurrentResult());
  expect(asked).toEqual([0, 1, 0, 1]);
  leave();
});

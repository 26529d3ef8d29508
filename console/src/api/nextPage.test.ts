import { InfiniteQueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { readNextPage, retryPages } from "./nextPage";
import { queryClient } from "./queries";

test("a page that fails is asked for once, and again when a person wants it", async () => {
  let fails = true;
  const queryFn = vi.fn(({ pageParam }: { pageParam: number }) => (pageParam === 1 && fails ? Promise.reject(new Error("no")) : Promise.resolve(pageParam)));
  const observer = new InfiniteQueryObserver(queryClient(() => undefined), {
    queryKey: ["pages"],
    queryFn,
    initialPageParam: 0,
    getNextPageParam: (page: number) => (page < 2 ? page + 1 : null),
  });
  const leave = observer.subscribe((result) => readNextPage(result));
  await vi.waitFor(() => expect(observer.getCurrentResult().isFetchNextPageError).toBe(true));
  for (let drawn = 0; drawn < 20; drawn += 1) readNextPage(observer.getCurrentResult());
  expect(queryFn).toHaveBeenCalledTimes(2);
  fails = false;
  retryPages(observer.getCurrentResult());
  await vi.waitFor(() => expect(observer.getCurrentResult().data?.pages).toEqual([0, 1, 2]));
  leave();
});

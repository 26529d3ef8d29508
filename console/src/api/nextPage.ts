/** Lists that are read page by page as one looks at them. */

interface Pages {
  isFetching: boolean;
  hasNextPage: boolean;
  isFetchNextPageError: boolean;
  fetchNextPage: (options: { cancelRefetch: boolean }) => unknown;
  refetch: () => unknown;
}

/** Reads the next page, if there is one. After an error a person reads on: an answer that fails is not asked for without end. */
export function readNextPage(pages: Pages): void {
  if (pages.hasNextPage && !pages.isFetching && !pages.isFetchNextPageError) pages.fetchNextPage({ cancelRefetch: false });
}

/** What a person does about an error: the page that failed is read again, or all of them. */
export function retryPages(pages: Pages): void {
  if (pages.isFetchNextPageError) pages.fetchNextPage({ cancelRefetch: false });
  else pages.refetch();
}

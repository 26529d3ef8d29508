/**
 * A link in a row of a table. A `Link` of the router follows the address of the page by itself, which is much for each row
 * of a long table: this one is a plain link, and the table goes where it leads.
 */

import { useRouter } from "@tanstack/react-router";
import { useCallback, type MouseEvent, type ReactNode } from "react";

interface Props {
  /** A page of the console, with all parts encoded. */
  href: string;
  className?: string | undefined;
  task?: boolean;
  children: ReactNode;
}

export function RowLink({ href, className, task, children }: Props) {
  return (
    <a href={href} className={className} data-row-link data-task={task}>
      {children}
    </a>
  );
}

/** For the click on what has such links: goes to the page of one without loading the console again. */
export function useRowLinks(): (event: MouseEvent) => void {
  const { history } = useRouter();
  return useCallback(
    (event) => {
      // With these keys, or another button, the browser opens the page elsewhere.
      if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      const link = (event.target as Element).closest("a[data-row-link]");
      const href = link?.getAttribute("href");
      if (href === null || href === undefined) return;
      event.preventDefault();
      history.push(href);
    },
    [history],
  );
}

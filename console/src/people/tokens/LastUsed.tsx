/** When a token was last used. Only the hour is known: no minutes are counted within it. */

import { text } from "../../texts";
import { Moment } from "../../ui/Moment";
import { exact } from "../../ui/format";
import { useNow } from "../../ui/useNow";

const HOUR_MS = 3_600_000;

export function LastUsed({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (at === null || at === undefined || now - Date.parse(at) >= HOUR_MS) return <Moment at={at} />;
  return (
    <time dateTime={at} title={exact(new Date(at))}>
      {text("people.tokens.used_recently")}
    </time>
  );
}

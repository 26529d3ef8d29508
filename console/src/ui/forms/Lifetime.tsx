/** Chooses how long something is valid. */

import { Select } from "@mantine/core";
import { text } from "../../texts";
import { duration } from "../format";

const DAY = 86_400;

interface Props {
  label: string;
  /** In seconds; 0 is not at all. */
  choices: readonly number[];
  value: number;
  onChange: (seconds: number) => void;
}

export function Lifetime({ label, choices, value, onChange }: Props) {
  const data = choices.map((seconds) => ({ value: String(seconds), label: words(seconds) }));
  return <Select label={label} data={data} value={String(value)} onChange={(chosen) => chosen && onChange(Number(chosen))} />;
}

function words(seconds: number): string {
  if (seconds === 0) return text("ui.lifetime.none");
  return seconds % DAY === 0 ? text("ui.lifetime.days", { count: seconds / DAY }) : duration(seconds);
}

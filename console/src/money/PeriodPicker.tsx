/** A period of days in UTC: usual ones, and any other. */

import { Group, SegmentedControl } from "@mantine/core";
import { text } from "../texts";
import { DateField } from "../ui/forms/DateField";
import { preset, presetOf, type Period, type Preset } from "./period";

const PRESETS: readonly Preset[] = ["month", "last_month", "days30", "days7"];

interface Props {
  period: Period;
  now: number;
  change: (period: Period) => void;
}

export function PeriodPicker({ period, now, change }: Props) {
  const chosen = presetOf(period, now);
  const shown = chosen === null ? ([...PRESETS, "other"] as const) : PRESETS;
  const options = shown.map((value) => ({ value, label: text(`money.period.${value}`) }));
  return (
    <Group gap="xs" align="end">
      <SegmentedControl
        aria-label={text("money.period.label")}
        data={options}
        value={chosen ?? "other"}
        onChange={(value) => {
          const name = PRESETS.find((each) => each === value);
          if (name !== undefined) change(preset(name, now));
        }}
      />
      <DateField
        type="date"
        label={text("ui.period.from", { zone: "UTC" })}
        value={period.from}
        max={period.until}
        apply={(from) => from && change({ ...period, from })}
      />
      <DateField
        type="date"
        label={text("ui.period.until", { zone: "UTC" })}
        value={period.until}
        min={period.from}
        apply={(until) => until && change({ ...period, until })}
      />
    </Group>
  );
}

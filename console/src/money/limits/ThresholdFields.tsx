/** The thresholds of a budget, each in percent of what was used or of what is expected. */

import { Button, Fieldset, Group, NumberInput, Select, Stack } from "@mantine/core";
import type { Threshold } from "../../api/schema";
import { text } from "../../texts";

const MEASURES = ["actual", "forecast"] as const;
/** What the API takes. */
const MOST_THRESHOLDS = 10;
const MOST_PERCENT = 1_000;

interface Props {
  thresholds: readonly Threshold[];
  change: (thresholds: readonly Threshold[]) => void;
}

export function ThresholdFields({ thresholds, change }: Props) {
  const set = (index: number, part: Partial<Threshold>) => change(thresholds.map((each, at) => (at === index ? { ...each, ...part } : each)));
  return (
    <Fieldset legend={text("money.budgets.thresholds")}>
      <Stack gap="xs">
        {thresholds.map((threshold, index) => (
          // Thresholds have no names: a row is its place.
          <Group key={index} gap="xs" align="end">
            <NumberInput
              label={text("money.budgets.percent")}
              min={1}
              max={MOST_PERCENT}
              allowDecimal={false}
              value={threshold.percent}
              onChange={(percent) => typeof percent === "number" && set(index, { percent })}
              w={100}
            />
            <Select
              label={text("money.budgets.measure")}
              data={MEASURES.map((value) => ({ value, label: text(`money.budgets.${value}`) }))}
              value={threshold.measure}
              onChange={(value) => set(index, { measure: MEASURES.find((each) => each === value) ?? "actual" })}
              w={180}
            />
            <Button variant="default" disabled={thresholds.length === 1} onClick={() => change(thresholds.filter((_each, at) => at !== index))}>
              {text("money.budgets.remove_threshold")}
            </Button>
          </Group>
        ))}
        {thresholds.length < MOST_THRESHOLDS ? (
          <Button variant="default" w="fit-content" onClick={() => change([...thresholds, { measure: "actual", percent: 50 }])}>
            {text("money.budgets.add_threshold")}
          </Button>
        ) : null}
      </Stack>
    </Fieldset>
  );
}

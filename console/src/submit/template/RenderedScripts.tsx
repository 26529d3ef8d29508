/** The script that a form makes, or those of a workflow's steps. */

import { Group, Stack, Text, Title } from "@mantine/core";
import type { RenderedScript } from "../../api/schema";
import { text } from "../../texts";
import { CodeEditor } from "../../ui/editor/CodeEditor";
import { UserText, visible } from "../../ui/UserText";
import classes from "./template.module.css";
import type { Rendered } from "./useRendered";

interface Props {
  rendering: Rendered;
  /** Whether values are missing, so that there is no script yet. */
  missing: boolean;
}

export function RenderedScripts({ rendering, missing }: Props) {
  const steps = rendering.rendered?.steps ?? [];
  return (
    <Stack gap="sm" aria-busy={!rendering.current} style={{ minWidth: 0 }}>
      {steps.length === 0 ? <Text c="dimmed">{text(missing ? "templates.render.missing" : "templates.render.none")}</Text> : null}
      {steps.map((step) => (
        <section key={step.step_id ?? ""}>
          <Group gap="xs" mb={4} align="baseline">
            <Title order={2} fz="md">
              <UserText>
                {step.step_id === null ? text("templates.render.script") : text("templates.render.step", { step: step.step_id })}
              </UserText>
            </Title>
            <Text size="sm" c="dimmed">
              {text("templates.render.read_only")}
            </Text>
          </Group>
          {step.tasks === null ? null : <Text size="sm">{text("templates.render.tasks", { count: step.tasks })}</Text>}
          {step.warnings.map((warning) => (
            <Text size="sm" key={warning}>
              <UserText>{warning}</UserText>
            </Text>
          ))}
          <div className={classes.script} style={steps.length > 1 ? { height: 220 } : {}}>
            <CodeEditor language="shell" label={labelOf(step)} value={step.script} readOnly />
          </div>
        </section>
      ))}
    </Stack>
  );
}

function labelOf({ step_id }: RenderedScript): string {
  return step_id === null ? text("templates.render.script") : text("templates.render.step_label", { step: visible(step_id) });
}

/** What forms for people and tokens share: how long something may be valid, and to which scopes it is limited. */

import { Checkbox, SimpleGrid, Stack, Switch } from "@mantine/core";
import type { Scope } from "../api/schema";
import { text } from "../texts";

const DAY = 86_400;

export const TOKEN_LIFETIMES = [DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY] as const;
export const INVITATION_LIFETIMES = [DAY, 7 * DAY, 30 * DAY] as const;
export const OVERLAPS = [0, 3_600, DAY, 7 * DAY] as const;

/** What a token of a person may be limited to. SCIM is for keys of service accounts. */
export const SCOPES = [
  "profile",
  "clusters:read",
  "clusters:write",
  "jobs:read",
  "jobs:write",
  "events:read",
  "files:read",
  "files:write",
  "members:read",
  "members:write",
  "webhooks:read",
  "webhooks:write",
  "bus-credentials:read",
  "bus-credentials:write",
] as const satisfies readonly Scope[];

interface ScopesProps {
  choices: readonly Scope[];
  /** Null where it is not limited. */
  value: readonly Scope[] | null;
  onChange: (scopes: Scope[] | null) => void;
}

export function Scopes({ choices, value, onChange }: ScopesProps) {
  return (
    <Stack gap="xs">
      <Switch
        label={text("people.scopes.limit")}
        description={text("people.scopes.limit_details")}
        checked={value !== null}
        onChange={(event) => onChange(event.currentTarget.checked ? [] : null)}
      />
      {value === null ? null : (
        <Checkbox.Group
          label={text("people.scopes.title")}
          value={[...value]}
          onChange={(chosen) => onChange(choices.filter((scope) => chosen.includes(scope)))}
        >
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs" verticalSpacing={6} mt={4}>
            {choices.map((scope) => (
              <Checkbox key={scope} value={scope} label={scope} description={text(`people.scopes.${key(scope)}`)} />
            ))}
          </SimpleGrid>
        </Checkbox.Group>
      )}
    </Stack>
  );
}

type ScopeKey = "profile" | "clusters_read" | "clusters_write" | "jobs_read" | "jobs_write" | "events_read" | "files_read" | "files_write" | "members_read" | "members_write" | "webhooks_read" | "webhooks_write" | "bus_credentials_read" | "bus_credentials_write" | "scim";

function key(scope: Scope): ScopeKey {
  return scope.replace(/[:-]/g, "_") as ScopeKey;
}

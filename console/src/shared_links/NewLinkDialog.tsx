/** Makes a link: what it shows besides the job itself, and for how long. Its address is shown once. */

import { Checkbox, Group, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import type { Shown } from "../api/schema";
import { text } from "../texts";
import { Lifetime } from "../ui/forms/Lifetime";
import { SecretDialog } from "../ui/forms/SecretDialog";
import { makeLink, type Target } from "./queries";
import { SHOWN } from "./shown";

const DAY = 86_400;
const LIFETIMES = [3_600, DAY, 7 * DAY, 30 * DAY] as const;

interface Props {
  target: Target;
  made: () => void;
  close: () => void;
}

export function NewLinkDialog({ target, made, close }: Props) {
  const [name, setName] = useState("");
  const [shows, setShows] = useState<readonly Shown[]>(["why"]);
  const [seconds, setSeconds] = useState<number>(7 * DAY);
  return (
    <SecretDialog
      title={text("shared_links.make_title", { number: target.job })}
      made={text("shared_links.made_title", { number: target.job })}
      verb={text("shared_links.make")}
      ready
      make={async (key) => {
        const link = await makeLink(target, key, { name: name.trim(), shows: [...shows], expires_in_seconds: seconds });
        made();
        return `${location.origin}${link.path}`;
      }}
      advice={text("shared_links.advice")}
      close={close}
    >
      <Text>{text("shared_links.always")}</Text>
      <Checkbox.Group
        label={text("shared_links.shows")}
        value={[...shows]}
        onChange={(chosen) => setShows(SHOWN.filter((each) => chosen.includes(each)))}
      >
        <Group gap="md" mt={4}>
          {SHOWN.map((each, at) => (
            // The focus begins before what the link shows, so that nobody creates one without having met it.
            <Checkbox key={each} value={each} label={text(`shared_links.shown.${each}`)} data-autofocus={at === 0 || undefined} />
          ))}
        </Group>
      </Checkbox.Group>
      <Text size="sm">{text("shared_links.output_details")}</Text>
      <Lifetime label={text("shared_links.lifetime")} choices={LIFETIMES} value={seconds} onChange={setSeconds} />
      <TextInput
        label={text("shared_links.name")}
        description={text("shared_links.name_details")}
        value={name}
        maxLength={64}
        onChange={(event) => setName(event.currentTarget.value)}
      />
    </SecretDialog>
  );
}

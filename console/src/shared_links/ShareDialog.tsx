/** The links of a job: its owner makes them; they and admins revoke them. */

import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Job, LinkView, Profile } from "../api/schema";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import { linksQuery, mayMake, revokeLink } from "./queries";
import { NewLinkDialog } from "./NewLinkDialog";
import { nameOf, whatOf } from "./shown";
import classes from "./shared_links.module.css";
import { Dialog } from "../ui/Dialog";

interface Props {
  cluster: string;
  job: Pick<Job, "job_id" | "uid">;
  me: Profile;
  close: () => void;
}

export function ShareDialog({ cluster, job, me, close }: Props) {
  const target = { cluster, job: job.job_id };
  const queries = useQueryClient();
  const links = useQuery(linksQuery(target));
  const [making, setMaking] = useState(false);
  const [revoked, setRevoked] = useState<LinkView | null>(null);
  const makes = mayMake(me, job);
  const again = () => void queries.invalidateQueries({ queryKey: linksQuery(target).queryKey });
  if (making) return <NewLinkDialog target={target} made={again} close={() => setMaking(false)} />;
  if (revoked !== null) {
    return (
      <Confirm
        opened
        close={() => setRevoked(null)}
        title={text("shared_links.revoke_title")}
        verb={text("shared_links.revoke_verb")}
        act={async () => {
          await revokeLink(target, revoked.id);
          queries.setQueryData(linksQuery(target).queryKey, (known) => {
            if (known === undefined) return known;
            const rest = known.links.filter(({ id }) => id !== revoked.id);
            return { links: rest, total: rest.length };
          });
        }}
      >
        <span>
          <UserText>{revoked.name || revoked.id}</UserText> · {text("shared_links.revoke_details")}
        </span>
      </Confirm>
    );
  }
  return (
    <Dialog close={close} title={text("shared_links.title", { number: job.job_id })}>
      <Stack gap="sm">
        <Text>{text(makes ? "shared_links.details" : "shared_links.details_admin")}</Text>
        {links.isError ? <ProblemView error={links.error} retry={() => void links.refetch()} /> : null}
        <Links links={links.data?.links} revoke={setRevoked} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={close}>
            {text("ui.close")}
          </Button>
          {makes ? <Button onClick={() => setMaking(true)}>{text("shared_links.make")}</Button> : null}
        </Group>
      </Stack>
    </Dialog>
  );
}

function Links({ links, revoke }: { links: readonly LinkView[] | undefined; revoke: (link: LinkView) => void }) {
  if (links === undefined) return <Text c="dimmed">{text("ui.loading")}</Text>;
  if (links.length === 0) return <Text c="dimmed">{text("shared_links.none")}</Text>;
  return (
    <ul className={classes.links} aria-label={text("shared_links.list")}>
      {links.map((link) => (
        <li key={link.id}>
          <div className={classes.link}>
            <span className={classes.name}>
              <UserText>{nameOf(link)}</UserText>
            </span>
            <span className={classes.quiet}>
              {text("shared_links.shows_what", { what: whatOf(link) })} · {text("shared_links.expires")} <Moment at={link.expires_at} /> ·{" "}
              {text("shared_links.made_by")} <UserText>{link.made_by}</UserText>
            </span>
          </div>
          <Button
            variant="default"
            aria-label={text("shared_links.revoke_of", { name: visible(link.name) || link.id.slice(0, 6) })}
            onClick={() => revoke(link)}
          >
            {text("shared_links.revoke")}
          </Button>
        </li>
      ))}
    </ul>
  );
}

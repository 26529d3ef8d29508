/** The versions of a template of the workspace, with what reviewers say of them, and what admins do with them. */

import { Button, Group, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { templateQuery } from "../api/launchables";
import type { VersionView } from "../api/schema";
import { text } from "../texts";
import { UserText } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import { publish, templatesQuery, versionsQuery } from "./queries";
import { ReviewDialog } from "./ReviewDialog";
import classes from "./Templates.module.css";

interface Props {
  cluster: string;
  id: string;
  versions: readonly VersionView[];
  isAdmin: boolean;
}

export function Versions({ cluster, id, versions, isAdmin }: Props) {
  const queries = useQueryClient();
  const [reviewed, setReviewed] = useState<number | null>(null);
  const use = useMutation({
    mutationFn: (number: number) => publish(id, number),
    onSuccess: (list) => {
      queries.setQueryData(versionsQuery(id).queryKey, list);
      void queries.invalidateQueries({ queryKey: templateQuery(id).queryKey, exact: true });
      void queries.invalidateQueries({ queryKey: templatesQuery.queryKey });
      void queries.invalidateQueries({ queryKey: ["launchables"] });
    },
  });
  return (
    <>
      {isAdmin ? null : <Text size="sm">{text("templates.needs_admin")}</Text>}
      {use.isError ? <ProblemView error={use.error} title={text("templates.publish_failed")} /> : null}
      <section className={classes.versions} aria-label={text("templates.tab.versions")} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {(["version", "state", "author", "created", "reviewer", "note", "acts"] as const).map((column) => (
                <th key={column} scope="col">
                  {text(`templates.versions.${column}`)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {versions.toReversed().map((each) => (
              <tr key={each.version}>
                <td className="number">{each.version}</td>
                <td>
                  {text(`templates.version_state.${each.state}`)}
                  {each.published ? ` · ${text("templates.published")}` : ""}
                </td>
                <td>
                  <UserText>{each.author}</UserText>
                </td>
                <td>
                  <Moment at={each.created_at} />
                </td>
                <td>
                  <UserText>{each.reviewer}</UserText>
                </td>
                <td>
                  <UserText>{each.note}</UserText>
                </td>
                <td>
                  <Group gap={6} wrap="nowrap">
                    <Link
                      to="/c/$cluster/templates/$template"
                      params={{ cluster, template: id }}
                      search={{ tab: "definition", version: each.version }}
                      aria-label={text("templates.versions.read_long", { version: each.version })}
                    >
                      {text("templates.versions.read")}
                    </Link>
                    <Link
                      to="/c/$cluster/templates/$template"
                      params={{ cluster, template: id }}
                      search={{ tab: "try", version: each.version }}
                      aria-label={text("templates.versions.try_long", { version: each.version })}
                    >
                      {text("templates.versions.try")}
                    </Link>
                    {isAdmin && !each.published ? (
                      <Button variant="default" onClick={() => setReviewed(each.version)} aria-label={text("templates.versions.review_long", { version: each.version })}>
                        {text("templates.versions.review")}
                      </Button>
                    ) : null}
                    {isAdmin && !each.published && each.state === "approved" ? (
                      <Button
                        loading={use.isPending && use.variables === each.version}
                        disabled={use.isPending}
                        onClick={() => use.mutate(each.version)}
                        aria-label={text("templates.versions.publish_long", { version: each.version })}
                      >
                        {text("templates.versions.publish")}
                      </Button>
                    ) : null}
                  </Group>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {reviewed === null ? null : <ReviewDialog id={id} version={reviewed} close={() => setReviewed(null)} />}
    </>
  );
}

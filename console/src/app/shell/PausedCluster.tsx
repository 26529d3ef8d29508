/** The paused state of a cluster: a mark in the header and a note on Jobs. For admins it links to Admin, Clusters. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { clustersQuery } from "../../api/queries";
import { text } from "../../texts";
import { useIsAdmin } from "../useIsAdmin";
import classes from "./PausedCluster.module.css";

function usePaused(cluster: string): boolean {
  const { data } = useQuery(clustersQuery);
  return data?.clusters.some(({ id, state }) => id === cluster && state === "paused") ?? false;
}

/** The mark in the header. */
export function PausedMark({ cluster }: { cluster: string }) {
  if (!usePaused(cluster)) return null;
  return (
    <span className={classes.mark} title={text("app.paused.details")}>
      <span aria-hidden>◔</span>{" "}
      <span role="status">
        <ResumeLink cluster={cluster}>{text("app.paused.mark")}</ResumeLink>
      </span>
    </span>
  );
}

/** Says in words why jobs wait: Slurm gives only the code of a reason. */
export function PausedNote({ cluster }: { cluster: string }) {
  if (!usePaused(cluster)) return null;
  return (
    <p className={classes.note} role="note">
      {text("app.paused.details")} <ResumeHint cluster={cluster} />
    </p>
  );
}

/** Where a paused cluster is resumed, and by whom. */
export function ResumeHint({ cluster }: { cluster: string }) {
  return useIsAdmin() ? <ResumeLink cluster={cluster}>{text("app.paused.resume")}</ResumeLink> : text("app.paused.ask");
}

/** A link to where the cluster is resumed, for admins; its words alone for all others. */
export function ResumeLink({ cluster, children }: { cluster: string; children: ReactNode }) {
  return useIsAdmin() ? (
    <Link to="/c/$cluster/admin/$section" params={{ cluster, section: "clusters" }}>
      {children}
    </Link>
  ) : (
    children
  );
}

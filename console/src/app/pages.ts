/** The pages in the rail, in their order. A new page gets a line here. */

import {
  Activity,
  CircleDollarSign,
  FileText,
  Folder,
  House,
  List,
  MonitorPlay,
  Send,
  Server,
  Users,
  Workflow,
  type LucideIcon,
} from "lucide-react";
import type { Role } from "../api/schema";
import { includes } from "./permissions";

export interface PageLink {
  key:
    | "home"
    | "jobs"
    | "submit"
    | "workflows"
    | "sessions"
    | "files"
    | "fleet"
    | "costs"
    | "activity"
    | "templates"
    | "admin";
  to: string;
  icon: LucideIcon;
  /** The role that the page needs. */
  needs: Role;
}

export const PAGES: readonly PageLink[] = [
  { key: "home", to: "/c/$cluster", icon: House, needs: "viewer" },
  { key: "jobs", to: "/c/$cluster/jobs", icon: List, needs: "viewer" },
  { key: "submit", to: "/c/$cluster/submit", icon: Send, needs: "member" },
  { key: "workflows", to: "/c/$cluster/workflows", icon: Workflow, needs: "viewer" },
  { key: "sessions", to: "/c/$cluster/sessions", icon: MonitorPlay, needs: "viewer" },
  { key: "files", to: "/c/$cluster/files", icon: Folder, needs: "viewer" },
  { key: "fleet", to: "/c/$cluster/fleet", icon: Server, needs: "viewer" },
  { key: "costs", to: "/c/$cluster/costs", icon: CircleDollarSign, needs: "viewer" },
  { key: "activity", to: "/c/$cluster/activity", icon: Activity, needs: "viewer" },
  { key: "templates", to: "/c/$cluster/templates", icon: FileText, needs: "viewer" },
  { key: "admin", to: "/c/$cluster/admin", icon: Users, needs: "admin" },
];

/** The pages of a role; none before it is known. */
export function pagesFor(role: Role | undefined): readonly PageLink[] {
  return role === undefined ? [] : PAGES.filter(({ needs }) => includes(role, needs));
}

/**
 * The page that an address of one cluster is in, as the place to go to on another cluster: what is in the page, such as
 * a job, is only on the first one.
 */
export function pageOf(path: string): string {
  const name = path.split("/")[3] ?? "";
  return PAGES.find(({ to }) => name !== "" && to === `/c/$cluster/${name}`)?.to ?? "/c/$cluster";
}

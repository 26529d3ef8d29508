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
}

export const PAGES: readonly PageLink[] = [
  { key: "home", to: "/c/$cluster", icon: House },
  { key: "jobs", to: "/c/$cluster/jobs", icon: List },
  { key: "submit", to: "/c/$cluster/submit", icon: Send },
  { key: "workflows", to: "/c/$cluster/workflows", icon: Workflow },
  { key: "sessions", to: "/c/$cluster/sessions", icon: MonitorPlay },
  { key: "files", to: "/c/$cluster/files", icon: Folder },
  { key: "fleet", to: "/c/$cluster/fleet", icon: Server },
  { key: "costs", to: "/c/$cluster/costs", icon: CircleDollarSign },
  { key: "activity", to: "/c/$cluster/activity", icon: Activity },
  { key: "templates", to: "/c/$cluster/templates", icon: FileText },
  { key: "admin", to: "/c/$cluster/admin", icon: Users },
];

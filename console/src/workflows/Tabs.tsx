/** The two parts of the room, each with an address of its own. */

import { Link } from "@tanstack/react-router";
import { text } from "../texts";
import classes from "./Workflows.module.css";

export function Tabs({ cluster }: { cluster: string }) {
  return (
    <nav className={classes.tabs} aria-label={text("workflows.tabs")}>
      <Link to="/c/$cluster/workflows" params={{ cluster }} activeOptions={{ exact: true }} activeProps={{ "aria-current": "page" }}>
        {text("workflows.runs")}
      </Link>
      <Link to="/c/$cluster/workflows/schedules" params={{ cluster }} activeProps={{ "aria-current": "page" }}>
        {text("workflows.schedules")}
      </Link>
    </nav>
  );
}

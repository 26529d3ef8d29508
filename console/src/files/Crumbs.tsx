/** Where one is: the folders from the root on, each of them a link. */

import { Link } from "@tanstack/react-router";
import { text } from "../texts";
import { UserText } from "../ui/UserText";
import classes from "./Files.module.css";
import { crumbs, type Root } from "./paths";

export function Crumbs({ cluster, root, path }: { cluster: string; root: Root; path: string }) {
  const ofRoot = root === "folder" ? { root } : {};
  return (
    <nav aria-label={text("files.path")}>
      <ol className={classes.crumbs}>
        <li>
          <Link to="/c/$cluster/files" params={{ cluster }} search={ofRoot}>
            {text(`files.root.${root}`)}
          </Link>
        </li>
        {crumbs(path).map((crumb) => (
          <li key={crumb.path}>
            <Link
              to="/c/$cluster/files"
              params={{ cluster }}
              search={{ ...ofRoot, path: crumb.path }}
              {...(crumb.path === path ? { "aria-current": "page" as const } : {})}
            >
              <UserText>{crumb.name}</UserText>
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  );
}

/** The pages, with words; folded to icons where there is no room. */

import { Link } from "@tanstack/react-router";
import { text } from "../texts";
import classes from "./Rail.module.css";
import { PAGES } from "./pages";

export function Rail({ cluster }: { cluster: string }) {
  return (
    <nav className={classes.rail} aria-label={text("app.pages")}>
      {PAGES.map(({ key, to, icon: Icon }) => (
        <Link
          key={key}
          to={to}
          params={{ cluster }}
          activeOptions={{ exact: key === "home", includeSearch: false }}
          className={classes.link}
          activeProps={{ "aria-current": "page" }}
          title={text(`app.page.${key}`)}
        >
          <Icon size={16} aria-hidden />
          <span className={classes.word}>{text(`app.page.${key}`)}</span>
        </Link>
      ))}
    </nav>
  );
}

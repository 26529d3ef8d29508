/** The pages that the role may use, with words; folded to icons by choice, and where there is no room. */

import { UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { PanelLeftClose, PanelLeftOpen } from "lucide-react";
import { profileQuery } from "../../api/queries";
import { text } from "../../texts";
import classes from "./Rail.module.css";
import { pagesFor } from "../pages";

interface Props {
  cluster: string;
  folded: boolean;
  fold: (folded: boolean) => void;
}

export function Rail({ cluster, folded, fold }: Props) {
  const { data: profile } = useQuery(profileQuery);
  const Fold = folded ? PanelLeftOpen : PanelLeftClose;
  const foldWord = text(folded ? "app.unfold" : "app.fold");
  return (
    <nav className={classes.rail} aria-label={text("app.pages")} data-folded={folded}>
      {pagesFor(profile?.role).map(({ key, to, icon: Icon }) => (
        <Link
          key={key}
          to={to}
          params={{ cluster }}
          activeOptions={{ exact: key === "home", includeSearch: false }}
          className={classes.link}
          activeProps={{ "aria-current": "page" }}
          title={text(`app.page.${key}`)}
        >
          <Icon size={16} aria-hidden className={classes.icon} />
          <span className={classes.word}>{text(`app.page.${key}`)}</span>
        </Link>
      ))}
      <UnstyledButton className={classes.fold} onClick={() => fold(!folded)} aria-pressed={folded} title={foldWord}>
        <Fold size={16} aria-hidden className={classes.icon} />
        <span className={classes.word}>{foldWord}</span>
      </UnstyledButton>
    </nav>
  );
}

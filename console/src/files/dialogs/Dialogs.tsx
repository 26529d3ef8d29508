/** The dialogs of the page: one at a time. */

import { useQueryClient } from "@tanstack/react-query";
import { text } from "../../texts";
import { announce } from "../../ui/announcements";
import type { Placing } from "../actions";
import type { Entry } from "../queries";
import { refetchBucket } from "../queries";
import { NewFolder } from "./NewFolder";
import { PlaceFiles } from "./PlaceFiles";
import { RemoveFiles } from "./RemoveFiles";

export type Dialog =
  | { kind: "folder" }
  | { kind: "remove"; entries: readonly Entry[] }
  | { kind: "place"; how: Placing; sources: readonly string[]; destination: string };

interface Props {
  cluster: string;
  path: string;
  dialog: Dialog | null;
  close: () => void;
  /** Called when something was done. */
  acted: () => void;
}

export function Dialogs({ cluster, path, dialog, close, acted }: Props) {
  const queries = useQueryClient();
  if (dialog === null) return null;
  const after = async () => {
    acted();
    await refetchBucket(queries, cluster);
    if (dialog.kind !== "folder") announce(text(`files.said.${dialog.kind === "remove" ? "remove" : dialog.how}`));
  };
  switch (dialog.kind) {
    case "folder":
      return <NewFolder cluster={cluster} path={path} close={close} />;
    case "remove":
      return <RemoveFiles cluster={cluster} entries={dialog.entries} close={close} after={after} />;
    case "place":
      return <PlaceFiles cluster={cluster} {...dialog} close={close} after={after} />;
  }
}

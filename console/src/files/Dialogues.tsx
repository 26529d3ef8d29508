/** The dialogues of the page: one at a time. */

import { useQueryClient } from "@tanstack/react-query";
import type { Placing } from "./acts";
import type { Entry } from "./entries";
import { readBucketAgain } from "./entries";
import { NewFolder } from "./NewFolder";
import { PlaceFiles } from "./PlaceFiles";
import { RemoveFiles } from "./RemoveFiles";

export type Dialogue =
  | { kind: "folder" }
  | { kind: "remove"; entries: readonly Entry[] }
  | { kind: "place"; how: Placing; sources: readonly string[]; destination: string };

interface Props {
  cluster: string;
  path: string;
  dialogue: Dialogue | null;
  close: () => void;
  /** Called when something was done. */
  acted: () => void;
}

export function Dialogues({ cluster, path, dialogue, close, acted }: Props) {
  const queries = useQueryClient();
  if (dialogue === null) return null;
  const after = async () => {
    acted();
    await readBucketAgain(queries, cluster);
  };
  switch (dialogue.kind) {
    case "folder":
      return <NewFolder cluster={cluster} path={path} close={close} />;
    case "remove":
      return <RemoveFiles cluster={cluster} entries={dialogue.entries} close={close} after={after} />;
    case "place":
      return <PlaceFiles cluster={cluster} {...dialogue} close={close} after={after} />;
  }
}

/** The names of all shapes of a cluster in the order of its catalogue, from which the colours of charts follow. */

import { useQuery } from "@tanstack/react-query";
import { clusterQuery } from "../api/queries";
import type { ClusterDetail } from "../api/schema";

const NONE: readonly string[] = [];

/** Undefined while they are read; empty where they cannot be read, or nobody needs them. */
export function useShapes(cluster: string, needed = true): readonly string[] | undefined {
  const { data, isError } = useQuery({ ...clusterQuery(cluster), select: namesOf, enabled: needed });
  return data ?? (isError || !needed ? NONE : undefined);
}

function namesOf({ shapes }: ClusterDetail): readonly string[] {
  return shapes.map(({ name }) => name);
}

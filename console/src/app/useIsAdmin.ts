/** Whether the user is an admin of the workspace, or an owner; false until that is read. */

import { useQuery } from "@tanstack/react-query";
import { profileQuery } from "../api/queries";
import { includes } from "./permissions";

export function useIsAdmin(): boolean {
  const { data: me } = useQuery(profileQuery);
  return me !== undefined && includes(me.role, "admin");
}

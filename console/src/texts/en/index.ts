/** The English texts: a file for each room. */

import { app } from "./app";
import { jobs } from "./jobs";
import { sign_in } from "./sign_in";
import { ui } from "./ui";

export const en = { app, jobs, sign_in, ui } as const;

/** The English texts: a file for each room. */

import { activity } from "./activity";
import { app } from "./app";
import { files } from "./files";
import { fleet } from "./fleet";
import { home } from "./home";
import { job } from "./job";
import { jobs } from "./jobs";
import { money } from "./money";
import { parameters } from "./parameters";
import { people } from "./people";
import { sessions } from "./sessions";
import { shared_links } from "./shared_links";
import { sign_in } from "./sign_in";
import { submit } from "./submit";
import { templates } from "./templates";
import { ui } from "./ui";
import { views } from "./views";
import { workflows } from "./workflows";

export const en = {
  activity,
  app,
  files,
  fleet,
  home,
  job,
  jobs,
  money,
  parameters,
  people,
  sessions,
  shared_links,
  sign_in,
  submit,
  templates,
  ui,
  views,
  workflows,
} as const;

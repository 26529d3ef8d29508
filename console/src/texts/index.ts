/** All texts of the console. A language is a folder beside `en` with the same keys. */

import i18next from "i18next";
import { en } from "./en";

declare module "i18next" {
  interface CustomTypeOptions {
    resources: { translation: typeof en };
    returnNull: false;
  }
}

void i18next.init({
  lng: "en",
  resources: { en: { translation: en } },
  initAsync: false,
  nsSeparator: false,
  // React escapes what it shows. What people wrote is never looked up as a key.
  interpolation: { escapeValue: false, skipOnVariables: true },
});

/** The text of a key, with values in it: `text("jobs.count", { count: 3 })`. */
export const text = i18next.t;

/** All texts of the console, and their language. A language is a folder beside `en` with the same keys. */

import i18next from "i18next";
import { en } from "./en";
import { localeOf } from "./locale";

declare module "i18next" {
  interface CustomTypeOptions {
    resources: { translation: typeof en };
    returnNull: false;
  }
}

/** The language of the texts. */
export const LANGUAGE = "en";
/** The locale of dates and numbers. The time zone is the viewer's. */
export const LOCALE = localeOf(LANGUAGE, navigator.languages);

void i18next.init({
  lng: LANGUAGE,
  resources: { [LANGUAGE]: { translation: en } },
  initAsync: false,
  nsSeparator: false,
  // React escapes what it shows. What people wrote is never looked up as a key.
  interpolation: { escapeValue: false, skipOnVariables: true },
});

/** The text of a key, with values in it: `text("jobs.count", { count: 3 })`. */
export const text = i18next.t;

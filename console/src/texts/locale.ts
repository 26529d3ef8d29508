/** The locale of dates and numbers: they are in the language of the texts beside them. */

/** The viewer's own variety of the texts' language, such as `en-GB`; the language itself where they prefer none. */
export function localeOf(language: string, preferred: readonly string[]): string {
  return preferred.find((tag) => tag.toLowerCase().split("-")[0] === language) ?? language;
}

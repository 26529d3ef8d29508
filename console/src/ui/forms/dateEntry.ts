/** When a date that is typed into a browser's date field is one that is meant. */

/** The years that are typed on the way to one of four digits begin with a zero, such as 0202 before 2026. */
const WHOLE_YEAR = /^[1-9]\d{3}-/;

/** Whether the value of a field is a whole date within its bounds, so that it can be applied without waiting for Enter. */
export function isWholeDate(value: string, { valid }: Pick<ValidityState, "valid">): boolean {
  return valid && WHOLE_YEAR.test(value);
}

/** Text that somebody else wrote, such as the name of a job: shown as it is, and kept from changing what is around it. */

import classes from "./UserText.module.css";

// Control characters, and those that change the direction of text, are shown by their numbers.
// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** A text in which no character is invisible. */
export function visible(value: string): string {
  return value.replace(CONTROL, (character) => `⟨${character.codePointAt(0)?.toString(16).padStart(4, "0")}⟩`);
}

interface Props {
  children: string;
  /** Cut off at the end of its line; the whole text is its title then. */
  cut?: boolean;
}

export function UserText({ children, cut = false }: Props) {
  const shown = visible(children);
  return (
    <bdi className={cut ? classes.cut : classes.wrapped} title={cut ? shown.slice(0, 1000) : undefined}>
      {shown}
    </bdi>
  );
}

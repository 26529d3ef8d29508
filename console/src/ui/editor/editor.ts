/** The editor of code: CodeMirror with the console's colours. Only lazily loaded code imports this. */

import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { yaml } from "@codemirror/legacy-modes/mode/yaml";
import { lintGutter, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type ChangeSpec, type Extension, type Text } from "@codemirror/state";
import { EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { visible } from "../UserText";

export type CodeLanguage = "shell" | "yaml";

/** What is said of a line, counted from 1. */
export interface LineNote {
  line: number;
  severity: "error" | "warning";
  message: string;
}

const LANGUAGES = { shell: StreamLanguage.define(shell), yaml: StreamLanguage.define(yaml) };
/** Those that change the direction of text or that nobody sees, besides the ones that the editor shows by itself. */
const INVISIBLE = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;

const colours = HighlightStyle.define([
  { tag: [tags.comment, tags.meta], color: "var(--text-quiet)" },
  { tag: [tags.keyword, tags.operatorKeyword, tags.standard(tags.name)], color: "var(--state-starting)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--state-done)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--state-waiting)" },
  { tag: [tags.variableName, tags.definition(tags.variableName), tags.propertyName, tags.attributeName], color: "var(--accent)" },
  { tag: tags.invalid, color: "var(--state-failed)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--surface)", color: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text-strong)" },
  ".cm-cursor": { borderLeftColor: "var(--text-strong)" },
  ".cm-gutters": { backgroundColor: "var(--surface-sunken)", color: "var(--text-quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-soft) 45%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--accent-soft)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, ::selection": {
    backgroundColor: "var(--accent-soft)",
  },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--state-failed)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--state-waiting)" },
});

/** Of what can only be read: sunken, and without a cursor. */
const readOnlyLook = EditorView.theme({
  "&": { backgroundColor: "var(--surface-sunken)" },
  ".cm-cursor": { display: "none" },
});

/**
 * Text over a selection, without the browser's own editing: that keeps the look of what it replaces by inline styles,
 * which the page's policy refuses.
 */
function typedOver(event: InputEvent, view: EditorView): boolean {
  const { main } = view.state.selection;
  const { data } = event;
  if (event.inputType !== "insertText" || data === null || main.empty || view.state.readOnly) return false;
  const insert = () => view.state.update(view.state.replaceSelection(data), { userEvent: "input.type", scrollIntoView: true });
  const handled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, main.from, main.to, data, insert));
  if (!handled) view.dispatch(insert());
  return true;
}

interface Wanted {
  language: CodeLanguage;
  label: string;
  readOnly: boolean;
  /** The nonce of the page, which its styles need. */
  nonce: string;
  onChange: (text: string) => void;
}

export function extensions({ language, label, readOnly, nonce, onChange }: Wanted): Extension[] {
  return [
    EditorView.cspNonce.of(nonce),
    lineNumbers(),
    lintGutter(),
    history(),
    highlightSpecialChars({ addSpecialChars: INVISIBLE }),
    highlightSelectionMatches(),
    bracketMatching(),
    closeBrackets(),
    EditorView.lineWrapping,
    EditorView.perLineTextDirection.of(true),
    LANGUAGES[language],
    syntaxHighlighting(colours),
    // Of two looks the earlier one counts.
    readOnly ? readOnlyLook : highlightActiveLine(),
    look,
    // Tab stays what moves to the next control.
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap]),
    EditorView.domEventHandlers({ beforeinput: typedOver }),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocapitalize: "off", autocorrect: "off" }),
    EditorState.readOnly.of(readOnly),
    // One line break for all systems: the script's own DOS line endings are seen by the checks.
    EditorState.lineSeparator.of("\n"),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString());
    }),
  ];
}

/** The smallest change from one text to the other, so that the place of the cursor stays. */
export function difference(before: string, after: string): ChangeSpec {
  const most = Math.min(before.length, after.length);
  let from = 0;
  while (from < most && before[from] === after[from]) from += 1;
  let same = 0;
  while (same < most - from && before.at(-1 - same) === after.at(-1 - same)) same += 1;
  return { from, to: before.length - same, insert: after.slice(from, after.length - same) };
}

export function diagnostics(notes: readonly LineNote[], doc: Text): Diagnostic[] {
  return notes.map(({ line, severity, message }) => {
    const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
    return { from: at.from, to: at.to, severity, message: visible(message) };
  });
}

/** An editor of code, loaded when it is shown first. Until then its text stands in its place. */

import { lazy, Suspense } from "react";
import type { CodeLanguage, LineNote } from "./editor";
import classes from "./CodeEditor.module.css";
import { visible } from "../UserText";

export interface CodeEditorProps {
  value: string;
  onChange?: (value: string) => void;
  language: CodeLanguage;
  /** What the text is, for screen readers. */
  label: string;
  notes?: readonly LineNote[];
  readOnly?: boolean;
}

const CodeMirrorEditor = lazy(() => import("./CodeMirrorEditor").then((module) => ({ default: module.CodeMirrorEditor })));
/** As much of the text as is shown until the editor is there. */
const SHOWN = 8_000;

/** As high as what it stands in. */
export function CodeEditor(props: CodeEditorProps) {
  return (
    <div className={classes.frame}>
      <Suspense fallback={<pre className={classes.text}>{visible(props.value.slice(0, SHOWN))}</pre>}>
        <CodeMirrorEditor {...props} />
      </Suspense>
    </div>
  );
}

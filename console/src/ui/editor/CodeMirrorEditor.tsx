/** CodeMirror in a component. Loaded lazily, by `CodeEditor`. */

import { setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";
import type { CodeEditorProps } from "./CodeEditor";
import { diagnostics, difference, extensions } from "./editor";

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";

export function CodeMirrorEditor({ value, onChange, language, label, notes, readOnly = false }: CodeEditorProps) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef({ value, onChange });
  latest.current.onChange = onChange;
  useEffect(() => {
    if (parent.current === null) return undefined;
    const changed = (text: string) => {
      latest.current.value = text;
      latest.current.onChange?.(text);
    };
    const made = new EditorView({
      parent: parent.current,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: extensions({ language, label, readOnly, nonce, onChange: changed }),
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, [language, label, readOnly]);
  useEffect(() => {
    // What came from here is there already.
    if (view.current === null || latest.current.value === value) return;
    latest.current.value = value;
    view.current.dispatch({ changes: difference(view.current.state.doc.toString(), value) });
  }, [value]);
  useEffect(() => {
    if (view.current === null) return;
    view.current.dispatch(setDiagnostics(view.current.state, diagnostics(notes ?? [], view.current.state.doc)));
  }, [notes, value]);
  return <div ref={parent} style={{ height: "100%", minWidth: 0 }} />;
}

/** Says to screen readers what has happened, where nothing that has the focus says it (WCAG 4.1.3, status messages). */

import { VisuallyHidden } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { ChangeAnnouncer } from "./changeAnnouncer";

const messages = new EventTarget();
const REST_MS = 700;

/** Says a message once, when the screen reader has said what it is saying. */
export function announce(message: string): void {
  messages.dispatchEvent(new CustomEvent("message", { detail: message }));
}

/** Says the message, unless it is empty, some time after the last change of `trigger`, such as filters. Changes of the message alone are not said. */
export function useAnnounced(message: string, trigger: unknown): void {
  const latest = useRef(message);
  const first = useRef(trigger);
  useEffect(() => {
    latest.current = message;
  });
  useEffect(() => {
    if (first.current === trigger) return undefined;
    first.current = undefined;
    const timer = setTimeout(() => {
      if (latest.current !== "") announce(latest.current);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [trigger]);
}

/** Says the message when it has changed since the page showed it first, as of `ChangeAnnouncer`. Null while it is not known. */
export function useChangesAnnounced(message: string | null, atOnce: boolean): void {
  const [announcer] = useState(() => new ChangeAnnouncer(announce));
  useEffect(() => {
    if (message !== null) announcer.tell(message, atOnce);
    return () => announcer.stop();
  }, [announcer, message, atOnce]);
}

/** Where messages appear for screen readers: once in the frame of all pages. */
export function Announcer() {
  const [message, setMessage] = useState({ text: "", number: 0 });
  useEffect(() => {
    const heard = (event: Event) => {
      const { detail } = event as CustomEvent<string>;
      setMessage(({ number }) => ({ text: detail, number: number + 1 }));
    };
    messages.addEventListener("message", heard);
    return () => messages.removeEventListener("message", heard);
  }, []);
  // The same text again is another message: the element is a new one.
  return (
    <VisuallyHidden role="status">
      <span key={message.number}>{message.text}</span>
    </VisuallyHidden>
  );
}

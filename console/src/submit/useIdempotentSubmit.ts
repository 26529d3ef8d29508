/** A submit that happens once: a key for each body, a question where the cost has to be confirmed. */

import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { priceToConfirm } from "./queries";

interface Action<Body, Answer> {
  /** Sends the body with a price that was confirmed, or null. */
  send: (body: Body, confirmed: number | null, key: string) => Promise<Answer>;
  done: (answer: Answer) => void;
}

export interface IdempotentSubmit<Body> {
  submit: (body: Body) => void;
  pending: boolean;
  error: Error | null;
  /** The price per hour that is asked for; null where nothing is. */
  price: number | null;
  /** Submits it at this price. Rejects with what went wrong. */
  confirm: () => Promise<void>;
  refuse: () => void;
}

export function useIdempotentSubmit<Body, Answer>({ send, done }: Action<Body, Answer>): IdempotentSubmit<Body> {
  const [price, setPrice] = useState<number | null>(null);
  const key = useRef({ body: "", key: crypto.randomUUID() });
  const running = useRef(false);
  const mutation = useMutation({
    mutationFn: ({ body, confirmed }: { body: Body; confirmed: number | null }) => {
      const written = JSON.stringify([body, confirmed]);
      // Another job is another request; the same one sent again is the same.
      if (key.current.body !== written) key.current = { body: written, key: crypto.randomUUID() };
      return send(body, confirmed, key.current.key);
    },
    onSuccess: (answer) => {
      key.current = { body: "", key: crypto.randomUUID() };
      setPrice(null);
      done(answer);
    },
    onError: (error) => setPrice(priceToConfirm(error)),
    onSettled: () => {
      running.current = false;
    },
  });
  async function start(body: Body, confirmed: number | null): Promise<void> {
    if (running.current) return;
    running.current = true;
    await mutation.mutateAsync({ body, confirmed });
  }
  return {
    // What went wrong is shown from `error`.
    submit: (body) => void start(body, null).catch(() => undefined),
    pending: mutation.isPending,
    error: price === null ? mutation.error : null,
    price,
    confirm: async () => {
      if (mutation.variables !== undefined) await start(mutation.variables.body, price);
    },
    refuse: () => {
      setPrice(null);
      mutation.reset();
    },
  };
}

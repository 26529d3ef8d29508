/** The SharedWorker with the streams of all tabs: browsers allow six connections to a host, whatever the tabs. */

import { Hub } from "./hub";
import type { FromTab } from "./messages";

declare const self: SharedWorkerGlobalScope;

const hub = new Hub();

self.addEventListener("connect", (event) => {
  const port = event.ports[0];
  if (port === undefined) return;
  hub.join(port);
  port.addEventListener("message", (message: MessageEvent<FromTab>) => hub.hear(port, message.data));
  port.start();
});

import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "./ui/theme/mantine.css";
import "./ui/theme/tokens.css";

import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./api/queries";
import { router } from "./app/router";
import { watchSignedInUser, watchRestored, whenSessionEnds } from "./app/session";
import { Feed } from "./live/feed";
import { FeedContext } from "./live/useLive";
import { LANGUAGE } from "./texts";
import { theme, variables } from "./ui/theme/theme";

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
document.documentElement.lang = LANGUAGE;
// Dialogs keep the page below from scrolling by a style of their own; the library of it looks here for the nonce.
Object.assign(globalThis, { __webpack_nonce__: nonce });
const feed = new Feed();
const queries = queryClient(() => sessionEnded());
const sessionEnded = whenSessionEnds(queries);
const pages = router(queries);

feed.onSessionChanged = sessionEnded;
watchSignedInUser(queries, sessionEnded);
watchRestored();

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <QueryClientProvider client={queries}>
        <FeedContext value={feed}>
          <RouterProvider router={pages} />
        </FeedContext>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);

/** Dialogs of the bar, loaded when one is first shown. */

import { lazy } from "react";

export const FailedDialog = lazy(() => import("./FailedDialog").then(({ FailedDialog: component }) => ({ default: component })));
export const KeysDialog = lazy(() => import("./KeysDialog").then(({ KeysDialog: component }) => ({ default: component })));
export const Palette = lazy(() => import("./palette/Palette").then(({ Palette: component }) => ({ default: component })));

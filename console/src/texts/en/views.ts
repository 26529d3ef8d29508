/** Texts of saved views. */

export const views = {
  title: "Views",
  list: "Saved views of this page",
  none: "No views are saved for this page. A view is its filters and its order, under a name. Nobody else sees it.",
  name: "Name for what the page shows now",
  save: "Save view",
  replace: "Replace view",
  replaces: "A view has this name. It is replaced.",
  replaces_other: "A view of another page has this name. It is replaced.",
  wrong_name: "A name has no / and begins with no point.",
  too_long: "These filters are too long to be saved.",
  delete: "Delete the view {{name}}",
} as const;

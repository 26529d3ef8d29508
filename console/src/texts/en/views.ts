/** Texts of saved views. */

export const views = {
  title: "Views",
  list: "Saved views of this page",
  none: "No views are saved for this page. A view saves the filters and the order under a name. Only you see your views.",
  name: "Name of the new view",
  save: "Save view",
  saved: "The view {{name}} is saved",
  replace: "Replace view",
  replaces: "A view with this name exists. Saving replaces it.",
  replaces_other: "A view of another page has this name. Saving replaces it.",
  wrong_name: "A name cannot contain / or start with a dot.",
  too_long: "These filters are too long to save. Remove some.",
  delete: "Delete the view {{name}}",
} as const;

/** Texts of the frame around all pages. */

export const app = {
  pages: "Pages",
  skip: "Skip to the content",
  cluster: "Cluster",
  home: "Go to the start",
  api: "API",
  sign_out: "Sign out",
  no_page: "There is no such page",
  no_page_details: "The address may be mistyped, or what it named is gone.",
  live: {
    live: "Live",
    connecting: "Connecting",
    as_of: "As of {{time}}",
  },
  page: {
    home: "Home",
    jobs: "Jobs",
    submit: "Submit",
    workflows: "Workflows",
    sessions: "Sessions",
    files: "Files",
    fleet: "Fleet",
    costs: "Costs",
    activity: "Activity",
    templates: "Templates",
    admin: "Admin",
  },
} as const;

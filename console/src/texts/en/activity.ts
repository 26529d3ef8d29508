/** Texts of the events of a cluster. */

export const activity = {
  none: "Nothing happened",
  none_details: "There are no events of this kind in this time. With fewer filters there may be more.",
  behind: "The newest events are still being archived. They appear as soon as they are.",
  column: {
    when: "When",
    what: "What",
    subject: "To what",
    who: "By whom",
    details: "Details",
  },
  filter: {
    kind: "Kind",
    all: "All kinds",
    subject: "Of one thing",
    subject_hint: "A job's number, a worker, a member",
    since: "Since",
    until: "Until",
    clear: "Clear all filters",
  },
  group: {
    job: "Jobs",
    action: "Acts on jobs",
    node: "Nodes",
    worker: "Workers",
    scale: "Decisions",
    cluster: "Cluster",
    file: "Files",
    member: "Members",
    token: "Tokens",
    template: "Templates",
    schedule: "Schedules",
    session: "Sessions",
    quota: "Quotas",
    budget: "Budgets",
  },
} as const;

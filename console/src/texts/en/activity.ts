/** Texts of the events of a cluster. */

export const activity = {
  none: "No events",
  none_details: "No event in this period matches. Remove filters or choose a longer period.",
  behind: "The newest events are still being archived. They appear here when that is done.",
  column: {
    when: "Time",
    what: "Event",
    subject: "Subject",
    who: "Actor",
    details: "Details",
  },
  filter: {
    kind: "Kind",
    all: "All kinds",
    subject: "Subject",
    subject_hint: "A job ID, a worker or a member",
    since: "Since",
    until: "Until",
    clear: "Clear filters",
  },
  group: {
    job: "Jobs",
    action: "Actions on jobs",
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

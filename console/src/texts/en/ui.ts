/** Texts that several rooms share. */

export const ui = {
  tab_title: "{{page}} · Clusterra",
  retry: "Try again",
  no_answer: "The gateway does not answer",
  no_answer_details: "Check your connection. If you were changing something, check whether the change was made before you repeat it.",
  fault: "This page has an error",
  copied: "Copied",
  copy: "Copy",
  not_copied: "Not copied",
  not_copied_details: "Not copied: the browser did not allow it. Select the text and copy it.",
  request_id: "Copy request ID",
  keep: "Go back",
  acts_of: "Actions for {{of}}",
  loading: "Loading",
  close: "Close",
  lifetime: {
    none: "Not at all",
    days_one: "{{count}} day",
    days_other: "{{count}} days",
  },
  secret: {
    once: "This is shown once.",
    done: "I have copied it",
  },
  states: {
    waiting: "Waiting",
    starting: "Starting",
    running: "Running",
    done: "Done",
    failed: "Failed",
    cancelled: "Cancelled",
  },
  reasons: {
    BeginTime: "Not before its begin time",
    Dependency: "Waits for other jobs",
    JobHeldAdmin: "Held by an admin",
    JobHeldUser: "Held by its owner",
    Priority: "Behind other jobs",
    Resources: "Waits for workers",
  },
  chart: {
    legend: "Values at {{time}}",
    numbers: "Show as a table",
    time: "Time",
    unknown: "not known",
    value: "{{name}} {{value}}",
  },
  period: {
    from: "From ({{zone}})",
    until: "Until ({{zone}})",
  },
  figures: {
    unknown: "not known",
  },
  table: {
    columns: "Columns",
    sort_by: "Sort by {{column}}",
    rows: "{{shown}} of {{total}}",
  },
} as const;

/** Texts that several rooms share. */

export const ui = {
  tab_title: "{{page}} · Clusterra",
  retry: "Try again",
  no_answer: "The gateway does not answer",
  no_answer_details: "Check the connection. If you were changing something, look whether it was changed before you repeat it.",
  fault: "The page has a fault",
  copied: "Copied",
  copy: "Copy",
  request_id: "Copy request id",
  keep: "Go back",
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
  chart: {
    legend: "Values at {{time}}",
    numbers: "The same numbers as a table",
    time: "When",
    unknown: "not known",
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

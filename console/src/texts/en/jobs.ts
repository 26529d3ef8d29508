/** Texts of jobs. */

export const jobs = {
  title: "#{{number}} {{name}}",
  unnamed: "(no name)",
  none: "No jobs yet",
  none_details: "Jobs that you submit here, by the command line or by sbatch appear in this list at once.",
  column: {
    state: "State",
    name: "Name",
    number: "Number",
    user: "Person",
    where: "Shape or reason",
    waited: "Waited",
    ran: "Ran",
    when: "Submitted",
  },
} as const;

/** Texts of the form of a template's parameters. */

export const parameters = {
  form: {
    nothing: "This template has no parameters.",
    more_one: "{{count}} more value",
    more_other: "{{count}} more values",
    between: "From {{min}} to {{max}}.",
    env_map: "One NAME=VALUE per line.",
    json: "As JSON.",
  },
  table: {
    pick: "Choose a local file",
    rows_one: "{{shown}} row: 1 array task",
    rows_other: "{{shown}} rows: {{shown}} array tasks",
    too_many: "The table has more than {{most}} rows. Remove some.",
    too_large: "The file is larger than 128 KiB. Choose a smaller one",
    missing: "The table lacks the columns: {{columns}}",
    preview: "First rows of {{label}}",
  },
  value: {
    required: "Enter a value",
    too_long: "This value is too long",
    one_line: "Enter one line of at most 4096 characters",
    number: "Enter a number",
    least: "Enter {{min}} or more",
    most: "Enter {{max}} or less",
    option: "Choose one of the options",
    variable: "Each line must be NAME=VALUE",
    json: "Enter JSON",
    object: "Enter a JSON object",
  },
} as const;

/** Texts of the form of a template's parameters. */

export const parameters = {
  form: {
    nothing: "This template asks for no values.",
    more_one: "{{count}} more value",
    more_other: "{{count}} more values",
    between: "From {{min}} to {{max}}.",
    env_map: "One NAME=VALUE in each line.",
    json: "As JSON.",
  },
  table: {
    pick: "Read a file of this computer",
    rows_one: "{{shown}} row, which makes 1 task",
    rows_other: "{{shown}} rows, which make as many tasks",
    too_many: "more than {{most}} rows: the table is too long",
    too_large: "The file has more than 128 KiB",
    missing: "The table has no column {{columns}}",
    preview: "The first rows of {{label}}",
  },
  value: {
    required: "A value is required",
    too_long: "It is too long",
    one_line: "It must be one line of at most 4096 characters",
    number: "It must be a number",
    least: "It must be {{min}} or more",
    most: "It must be at most {{max}}",
    option: "It must be one of the options",
    variable: "Each line must be NAME=VALUE",
    json: "It must be JSON",
    object: "It must be a JSON object",
  },
} as const;

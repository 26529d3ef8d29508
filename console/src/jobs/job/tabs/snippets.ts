/**
 * The same as the page, by the command line, curl and Python. The names in it are those of other people: each is quoted
 * for the language that it stands in.
 */

/** A word of a POSIX shell, whatever is in it. */
export function shellWord(value: string): string {
  if (/^[A-Za-z0-9_./:@%+=-]+$/.test(value)) return value;
  // Line ends and control characters would change what a terminal shows when the text is pasted.
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(value)) return `$'${[...value].map(ansiC).join("")}'`;
  return `'${value.replaceAll("'", `'\\''`)}'`;
}

/** A character within `$'…'`. A quote ends no word and a `!` repeats no command in a shell that reads them otherwise. */
function ansiC(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === "\\") return "\\\\";
  if (code >= 0x20 && code < 0x7f && character !== "'" && character !== "!") return character;
  return [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("").replaceAll("\\x00", "");
}

/** A string of Python, in ASCII. */
export function pythonString(value: string): string {
  const inner = [...value].map((character) => {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"' || character === "\\") return `\\${character}`;
    if (code >= 0x20 && code < 0x7f) return character;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return `"${inner.join("")}"`;
}

export interface Named {
  origin: string;
  cluster: string;
  job: string;
  name: string;
}

export interface Snippet {
  language: "cli" | "curl" | "python";
  code: string;
}

export function snippets({ origin, cluster, job, name }: Named): Snippet[] {
  const address = `${origin}/v1/clusters/${encodeURIComponent(cluster)}/jobs/${encodeURIComponent(job)}`;
  const [word, on, url] = [shellWord(job), `--cluster=${shellWord(cluster)}`, shellWord(`--url=${origin}`)];
  const curl = 'curl -H "Authorization: Bearer $CLUSTERRA_TOKEN"';
  const cli = [
    `clusterra job ${word} ${on} ${url}`,
    `clusterra why ${word} ${on} ${url}`,
    `clusterra logs --follow ${word} ${on} ${url}`,
    `clusterra cancel ${word} ${on} ${url}`,
    ...(name === "" ? [] : [`clusterra jobs ${shellWord(`--name=${name}`)} ${on} ${url}`]),
  ];
  const requests = [
    `${curl} ${shellWord(address)}`,
    `${curl} ${shellWord(`${address}/why`)}`,
    `${curl} ${shellWord(`${address}/output`)}`,
    `${curl} -X DELETE ${shellWord(address)}`,
  ];
  const python = [
    "from clusterra import Client",
    "",
    `client = Client(${pythonString(origin)}, cluster=${pythonString(cluster)})`,
    `job = client.job(${pythonString(job)})`,
    "print(job.why().text)",
    "for text in job.follow():",
    '    print(text, end="")',
    ...(name === "" ? [] : ["", `for record in client.jobs(name=${pythonString(name)}, limit=10):`, "    print(record.job_id, record.state)"]),
  ];
  return [
    { language: "cli", code: cli.join("\n") },
    { language: "curl", code: requests.join("\n") },
    { language: "python", code: python.join("\n") },
  ];
}

/** What a submit would be, cost and wait for, in words: of a job, or of the steps of a workflow together. */

import type { EstimatedWorkers, JobEstimate } from "../api/schema";
import { text } from "../texts";
import { duration, exact, money } from "../ui/format";
import type { StepsEstimate } from "./template/stepEstimates";
import { workersText } from "./workers";

export interface OutlookFact {
  name: string;
  value: string;
  title?: string | undefined;
}

export interface Outlook {
  facts: readonly OutlookFact[];
  /** The most that quotas may count, in USD: null without a limit, undefined where it is not known. */
  atMost: number | null | undefined;
  /** What the button says behind its verb. */
  promises: readonly string[];
  /** More about it, and when that was so; null before anything is known. */
  said: { text: string; asOf: string | null; paused: boolean } | null;
  warnings: readonly string[];
}

export function outlookOf(estimate: JobEstimate | StepsEstimate | null): Outlook {
  return estimate !== null && "unknown" in estimate ? ofSteps(estimate) : ofJob(estimate);
}

function ofJob(estimate: JobEstimate | null): Outlook {
  const starts = startOf(estimate);
  const unknown = text("submit.unknown");
  const cost = estimate?.cost ?? null;
  // The workers are those of all tasks, while the estimate has the hour of one: how many run at once is not known.
  const ofArray = (estimate?.tasks ?? 1) > 1;
  const atMost = cost === null ? undefined : mostOf(cost);
  return {
    facts: [
      workersFact(estimate?.workers ?? [], estimate, unknown),
      { name: text(ofArray ? "submit.of_array.per_hour" : "submit.fact.per_hour"), value: cost === null ? unknown : money(Number(cost.per_hour)) },
      {
        name: ofArray ? text("submit.of_array.at_most", { count: estimate?.tasks ?? 0 }) : text("submit.fact.at_most"),
        value: amount(atMost, unknown),
      },
      startFact(text("submit.fact.start"), estimate, unknown),
    ],
    atMost,
    promises: [priceOf(cost, atMost, ofArray), starts].filter((each) => each !== null),
    said: estimate && { text: estimate.text, asOf: estimate.as_of, paused: estimate.wait === "paused" },
    warnings: estimate?.warnings ?? [],
  };
}

function priceOf(cost: JobEstimate["cost"], atMost: number | null | undefined, ofArray: boolean): string | null {
  if (cost === null || atMost === undefined) return null;
  if (atMost !== null) return text("submit.button.price", { price: money(atMost) });
  return text(ofArray ? "submit.of_array.button" : "submit.button.per_hour", { price: money(Number(cost.per_hour)) });
}

/** The maximum costs are added up, and it starts with the first step that can: the others follow when it has ended. */
function ofSteps({ count, unknown, atMost, workers, first, asOf, problem, pending }: StepsEstimate): Outlook {
  const known = count - unknown;
  const lacking = pending ? text("submit.unknown") : text("submit.steps.unknown", { unknown, count });
  const cost = amount(known > 0 ? atMost : undefined, lacking);
  const whole = unknown === 0 ? atMost : undefined;
  const price = typeof atMost === "number" && known > 0 ? money(atMost) : null;
  const promised =
    price === null ? null : unknown === 0 ? text("submit.button.price", { price }) : text("submit.steps.button_part", { price, known, count });
  return {
    facts: [
      workersFact(workers, first, lacking),
      {
        name: text("submit.steps.at_most", { count }),
        value: known > 0 && unknown > 0 ? text("submit.steps.part", { cost, unknown: lacking }) : cost,
      },
      startFact(text("submit.steps.start"), first, lacking),
    ],
    atMost: whole,
    promises: [promised, startOf(first)].filter((each) => each !== null),
    said: pending ? null : { text: problem === null ? text("submit.steps.text") : text("submit.steps.problem", problem), asOf, paused: first?.wait === "paused" },
    warnings: [],
  };
}

function workersFact(workers: readonly EstimatedWorkers[], estimate: JobEstimate | null, unknown: string): OutlookFact {
  return { name: text("submit.fact.shape"), value: estimate === null ? unknown : workersText({ workers, wait: estimate.wait }) || unknown };
}

function startFact(name: string, estimate: JobEstimate | null, unknown: string): OutlookFact {
  const at = estimate?.expected_start;
  return { name, value: startOf(estimate) ?? unknown, title: at ? exact(new Date(at)) : undefined };
}

function amount(most: number | null | undefined, unknown: string): string {
  if (most === undefined) return unknown;
  return most === null ? text("submit.no_limit") : money(most);
}

/** The most that a job can cost, in USD; null without a limit. */
function mostOf({ at_most, total_at_most }: NonNullable<JobEstimate["cost"]>): number | null {
  const most = total_at_most ?? at_most;
  return most === null ? null : Number(most);
}

/** When it starts, in words; null where nobody knows. */
function startOf(estimate: JobEstimate | null): string | null {
  if (estimate === null) return null;
  if (estimate.wait === "nothing") return text("submit.starts.now");
  if (estimate.expected_start === null) return text(`submit.starts.${estimate.wait}`);
  // As of the estimate: a job that is submitted later starts later.
  const seconds = (Date.parse(estimate.expected_start) - Date.parse(estimate.as_of)) / 1000;
  return text("submit.starts.in", { duration: duration(Math.max(1, Math.round(seconds))) });
}

/** The steps of a run as a graph: one layer after the other, each step a link to its job. */

import { Link } from "@tanstack/react-router";
import type { StepView } from "../../api/schema";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import { stateGroup } from "../../ui/jobStates";
import { stepLikeJob } from "../runs";
import { StepMark, stepWord } from "../StepMark";
import classes from "../Workflows.module.css";
import { drawing, type Edge, type Place } from "./layers";

const WIDTH = 168;
const HEIGHT = 48;
const GAP_X = 56;
const GAP_Y = 16;
const MARGIN = 16;

const left = ({ layer }: Place) => MARGIN + layer * (WIDTH + GAP_X);
const top = ({ row }: Place) => MARGIN + row * (HEIGHT + GAP_Y);

/** From the middle of one step's end to the middle of the next one's begin. */
function line({ from, to }: Edge): string {
  const begin = { x: left(from) + WIDTH, y: top(from) + HEIGHT / 2 };
  const end = { x: left(to), y: top(to) + HEIGHT / 2 };
  const bend = GAP_X / 2;
  return `M ${begin.x} ${begin.y} C ${begin.x + bend} ${begin.y} ${end.x - bend} ${end.y} ${end.x} ${end.y}`;
}

export function StepGraph({ cluster, steps }: { cluster: string; steps: readonly StepView[] }) {
  const { places, edges, layers, rows } = drawing(steps);
  const byId = new Map(steps.map((step) => [step.step_id, step]));
  const width = 2 * MARGIN + layers * WIDTH + (layers - 1) * GAP_X;
  const height = 2 * MARGIN + rows * HEIGHT + (rows - 1) * GAP_Y;
  return (
    <div className={classes.graph} role="group" aria-label={text("workflows.run.graph")} title={text("workflows.run.graph_help")}>
      <div className={classes.canvas} style={{ width, height }}>
        <svg className={classes.edges} width={width} height={height} aria-hidden>
          {edges.map((edge) => (
            <path key={`${edge.from.id} ${edge.to.id}`} d={line(edge)} />
          ))}
        </svg>
        {places.map((place) => {
          const step = byId.get(place.id);
          return step === undefined ? null : <Node key={place.id} cluster={cluster} step={step} place={place} />;
        })}
      </div>
    </div>
  );
}

function Node({ cluster, step, place }: { cluster: string; step: StepView; place: Place }) {
  const about = {
    className: classes.node,
    style: { left: left(place), top: top(place), width: WIDTH, height: HEIGHT },
    "data-state": stateGroup(stepLikeJob(step)),
  };
  const content = (
    <>
      <UserText cut>{step.step_id}</UserText>
      <StepMark step={step} />
    </>
  );
  if (step.job_id === null) return <div {...about}>{content}</div>;
  return (
    <Link
      to="/c/$cluster/jobs/$job"
      params={{ cluster, job: step.job_id }}
      aria-label={text("workflows.run.step", { name: visible(step.step_id), state: stepWord(step) })}
      {...about}
    >
      {content}
    </Link>
  );
}

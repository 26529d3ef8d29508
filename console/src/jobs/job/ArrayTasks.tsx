/** The tasks of an array, in place of an output that it has none of: each with its state and a link to its page. */

import { Link } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { JobWithCost } from "../../api/schema";
import { text } from "../../texts";
import { ProblemView } from "../../ui/ProblemView";
import { StateMark } from "../../ui/StateMark";
import { tasksOfRecord } from "../arrayTasks";
import { MOST_TASKS } from "../arrayRecords";
import { arrayTasksQuery } from "../queries";
import classes from "./job.module.css";

interface Props {
  cluster: string;
  job: JobWithCost;
  /** Shown where no tasks are found. */
  children: ReactNode;
}

export function ArrayTasks({ cluster, job, children }: Props) {
  const found = useQuery(arrayTasksQuery(cluster, job));
  if (found.isError) return <ProblemView error={found.error} retry={() => void found.refetch()} />;
  if (found.data === undefined) return <div className={classes.skeleton} aria-label={text("ui.loading")} role="status" />;
  const { tasks, more } = found.data;
  if (tasks.length === 0) return children;
  return (
    <div className={classes.tasks}>
      <p className={classes.quiet}>
        {text("job.tasks.output")} {more ? text("job.tasks.part", { most: MOST_TASKS }) : null}{" "}
        <Link to="/c/$cluster/jobs" params={{ cluster }} search={{ find: `#${job.job_id}`, open: [job.job_id] }}>
          {text("job.tasks.all")}
        </Link>
      </p>
      <table>
        <caption className="visually-hidden">{text("job.tasks.name")}</caption>
        <thead>
          <tr>
            <th scope="col">{text("job.tasks.task")}</th>
            <th scope="col">{text("jobs.column.state")}</th>
            <th scope="col">{text("jobs.column.exit")}</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <tr key={task.job_id}>
              <td className="number">
                {tasksOfRecord(task) ? (
                  `${task.job_id}_[${tasksOfRecord(task)}]`
                ) : (
                  <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: task.job_id }}>
                    {task.job_id}
                  </Link>
                )}
              </td>
              <td>
                <StateMark state={task.state} />
              </td>
              <td className="number">{task.exit_code ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The next times of a schedule, in the viewer's zone and in UTC. */

import { Text } from "@mantine/core";
import { text } from "../texts";
import { exact, inColumn, zone } from "../ui/format";
import type { CronReading } from "./cron";
import classes from "./Workflows.module.css";

export function CronTimes({ reading }: { reading: CronReading }) {
  if ("problem" in reading) return null;
  if ("beyond" in reading) return <Text size="sm">{text("workflows.schedule.cron_beyond")}</Text>;
  return (
    <table className={classes.times}>
      <caption className="visually-hidden">{text("workflows.schedule.times")}</caption>
      <thead>
        <tr>
          <th scope="col">{text("workflows.schedule.times_head_here", { zone: zone() })}</th>
          <th scope="col">{text("workflows.schedule.times_head_utc")}</th>
        </tr>
      </thead>
      <tbody>
        {reading.times.map((time) => (
          <tr key={time.getTime()}>
            <td className="number" title={exact(time)}>
              {inColumn(time)}
            </td>
            <td className="number">{inColumn(time, "UTC")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

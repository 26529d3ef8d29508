/** The next times of a schedule, in the viewer's zone and in UTC. */

import { Text } from "@mantine/core";
import { LOCALE, text } from "../texts";
import { day, exact, zone } from "../ui/format";
import type { CronReading } from "./cron";
import classes from "./Workflows.module.css";

const UTC = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

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
              {day(time)}
            </td>
            <td className="number">{UTC.format(time)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

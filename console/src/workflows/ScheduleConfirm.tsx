/** Asks before a schedule is deleted, and before it is run now: that may cost money. */

import { Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import type { ScheduleView } from "../api/schema";
import { text } from "../texts";
import { announce } from "../ui/announcements";
import { Confirm } from "../ui/forms/Confirm";
import { UserText, visible } from "../ui/UserText";
import { deleteSchedule, runSchedule, schedulesQuery } from "./queries";

export interface AskedSchedule {
  act: "delete" | "run";
  schedule: ScheduleView;
}

interface Props {
  asked: AskedSchedule | null;
  close: () => void;
}

export function ScheduleConfirm({ asked, close }: Props) {
  const queries = useQueryClient();
  const key = useRef("");
  if (asked === null) {
    key.current = "";
    return null;
  }
  const { act, schedule } = asked;
  const runs = act === "run";
  return (
    <Confirm
      opened
      close={close}
      title={text(runs ? "workflows.schedule.run_title" : "workflows.schedule.delete_title")}
      verb={text(runs ? "workflows.schedule.run_now" : "workflows.schedule.delete")}
      dangerous={!runs}
      act={async () => {
        // One key as long as it is asked: a second try finds the job of the first.
        if (runs) await runSchedule(schedule.id, (key.current ||= crypto.randomUUID()));
        else await deleteSchedule(schedule.id);
        announce(text(runs ? "workflows.schedule.was_run" : "workflows.schedule.was_deleted", { name: visible(schedule.name) }));
        await queries.invalidateQueries(schedulesQuery);
      }}
    >
      <Text size="sm">
        <UserText>{text(runs ? "workflows.schedule.run_text" : "workflows.schedule.delete_text", { name: schedule.name })}</UserText>
      </Text>
    </Confirm>
  );
}

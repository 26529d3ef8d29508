/** Says that an act of the bar failed. */

import { Modal } from "@mantine/core";
import { ProblemView } from "../ui/ProblemView";

interface Props {
  title: string;
  error: Error;
  close: () => void;
}

export function FailedDialog({ title, error, close }: Props) {
  return (
    <Modal opened onClose={close} title={title}>
      <ProblemView error={error} />
    </Modal>
  );
}

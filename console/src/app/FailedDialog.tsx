/** Says that an act of the bar failed. */

import { ProblemView } from "../ui/ProblemView";
import { Dialog } from "../ui/Dialog";

interface Props {
  title: string;
  error: Error;
  close: () => void;
}

export function FailedDialog({ title, error, close }: Props) {
  return (
    <Dialog close={close} title={title}>
      <ProblemView error={error} />
    </Dialog>
  );
}

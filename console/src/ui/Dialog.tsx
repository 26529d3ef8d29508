/** A dialog that is there while it is open. When it closes, the focus goes back to what opened it. */

import { Modal, type ModalProps } from "@mantine/core";
import { useReturnedFocus } from "./useReturnedFocus";

export function Dialog({ close, ...props }: Omit<ModalProps, "opened" | "onClose"> & { close: () => void }) {
  useReturnedFocus();
  return <Modal opened onClose={close} {...props} />;
}

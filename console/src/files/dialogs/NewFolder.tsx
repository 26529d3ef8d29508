/** Goes to a folder that is not there yet: a bucket has no folders but those in the paths of its files. */

import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { text } from "../../texts";
import { join } from "../paths";
import { Dialog } from "../../ui/Dialog";

export function NewFolder({ cluster, path, close }: { cluster: string; path: string; close: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const wrong = name.includes("/") || name.includes("\\");
  function go(event: FormEvent) {
    event.preventDefault();
    if (wrong || name.trim() === "") return;
    close();
    void navigate({ to: "/c/$cluster/files", params: { cluster }, search: { path: join(path, name.trim()) } });
  }
  return (
    <Dialog close={close} title={text("files.act.new_folder")}>
      <form onSubmit={go}>
        <Stack gap="sm">
          <TextInput
            label={text("files.folder_name")}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
            error={wrong ? text("files.folder_name_wrong") : null}
            maxLength={255}
            data-autofocus
          />
          <Text size="xs" c="dimmed">
            {text("files.folder_kept")}
          </Text>
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" disabled={wrong || name.trim() === ""}>
              {text("files.open_folder")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

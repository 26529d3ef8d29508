/** The saved views of a page, to pick and delete, and the field that saves the present one. */

import { ActionIcon, Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation, useRouter } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import type { SavedViewView } from "../api/schema";
import { text } from "../texts";
import { announce } from "../ui/announcements";
import { UserText, visible } from "../ui/UserText";
import { ProblemView } from "../ui/ProblemView";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { deleteView, saveView, viewsQuery } from "./queries";
import { isName, MOST_NAME, queryOf, withView, type ViewedPage } from "./views";
import classes from "./views.module.css";

interface Props {
  page: ViewedPage;
  close: () => void;
}

export function ViewList({ page, close }: Props) {
  const queries = useQueryClient();
  const router = useRouter();
  const views = useQuery(viewsQuery);
  const query = queryOf(useLocation({ select: ({ searchStr }) => searchStr }));
  const own = views.data?.filter((view) => view.page === page);
  const deleting = useMutation({
    mutationFn: ({ name }: SavedViewView) => deleteView(name),
    onSuccess: (_, { name }) => queries.setQueryData(viewsQuery.queryKey, (known) => known?.filter((each) => each.name !== name)),
  });

  function pick(view: SavedViewView): void {
    close();
    // The page reads its search as that of any address: what it does not know is left out.
    const { pathname } = router.state.location;
    router.history.push(view.query === "" ? pathname : `${pathname}?${view.query}`);
  }

  return (
    <Stack gap="xs" w={280} maw="80vw">
      {views.isError ? <ProblemView error={views.error} retry={() => void views.refetch()} /> : null}
      {own === undefined ? (views.isError ? null : <Text c="dimmed">{text("ui.loading")}</Text>) : null}
      {own?.length === 0 ? <Text c="dimmed">{text("views.none")}</Text> : null}
      {own !== undefined && own.length > 0 ? (
        <ul className={classes.views} aria-label={text("views.list")}>
          {own.map((view) => (
            <li key={view.name}>
              <button type="button" className={classes.pick} aria-current={view.query === query || undefined} onClick={() => pick(view)}>
                <UserText cut>{view.name}</UserText>
              </button>
              <ActionIcon
                variant="subtle"
                aria-label={text("views.delete", { name: visible(view.name) })}
                disabled={deleting.isPending}
                onClick={() => deleting.mutate(view)}
              >
                <span aria-hidden>×</span>
              </ActionIcon>
            </li>
          ))}
        </ul>
      ) : null}
      {deleting.isError ? <ProblemView error={deleting.error} /> : null}
      <SaveForm page={page} query={query} views={views.data} />
    </Stack>
  );
}

interface SaveProps {
  page: ViewedPage;
  query: string | null;
  /** Those of all pages: a name is one view's. */
  views: readonly SavedViewView[] | undefined;
}

function SaveForm({ page, query, views }: SaveProps) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState("");
  const name = typed.trim();
  const save = useMutation({
    mutationFn: useSingleFlight<SavedViewView>(() => saveView(name, page, query ?? "")),
    onSuccess: (view) => {
      queries.setQueryData(viewsQuery.queryKey, (known) => withView(known ?? [], view));
      setTyped("");
      announce(text("views.saved", { name: visible(view.name) }));
    },
  });
  const replaced = views?.find((view) => view.name === name);
  const wrong = name !== "" && !isName(name) ? text("views.wrong_name") : query === null ? text("views.too_long") : null;
  function submit(event: FormEvent): void {
    event.preventDefault();
    if (name !== "" && wrong === null && !save.isPending) save.mutate();
  }
  return (
    <form onSubmit={submit}>
      <TextInput
        label={text("views.name")}
        value={typed}
        maxLength={MOST_NAME}
        error={wrong}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
      {replaced === undefined ? null : (
        <Text size="sm" mt={4}>
          {text(replaced.page === page ? "views.replaces" : "views.replaces_other")}
        </Text>
      )}
      {save.isError ? <ProblemView error={save.error} /> : null}
      <Group justify="flex-end" mt={6}>
        <Button type="submit" disabled={name === "" || wrong !== null} loading={save.isPending}>
          {text(replaced === undefined ? "views.save" : "views.replace")}
        </Button>
      </Group>
    </form>
  );
}

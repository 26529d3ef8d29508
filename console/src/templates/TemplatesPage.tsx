/** The templates of the installation and of the workspace. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { profileQuery, refetchQuery } from "../api/queries";
import type { TemplateView } from "../api/schema";
import { useLiveRefetch } from "../live/useLive";
import { text } from "../texts";
import { DataTable, type Column } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { templatesQuery } from "./queries";
import { KINDS } from "./routes";
import classes from "./Templates.module.css";
import { TemplateWriter } from "./TemplateWriter";

const route = getRouteApi("/c/$cluster/templates");

export function TemplatesPage() {
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const templates = useQuery(templatesQuery);
  const profile = useQuery(profileQuery);
  useLiveRefetch(["template."], () => refetchQuery(templates));
  const columns = useMemo(() => templateColumns(cluster), [cluster]);
  const rows = useMemo(() => wanted(templates.data?.templates ?? [], search), [templates.data, search]);
  const set = (part: Partial<typeof search>) => void navigate({ search: (before) => ({ ...before, ...part }), replace: true });
  const mayWrite = profile.data !== undefined && profile.data.role !== "viewer";
  if (search.write && profile.data !== undefined) {
    return (
      <Page title={text("templates.new")}>
        <TemplateWriter cluster={cluster} person={profile.data.id} mayWrite={mayWrite} template={null} />
      </Page>
    );
  }
  return (
    <Page
      title={text("app.page.templates")}
      actions={
        <Button disabled={!mayWrite} title={mayWrite ? "" : text("templates.needs_member")} onClick={() => void navigate({ search: { write: true } })}>
          {text("templates.write_new")}
        </Button>
      }
    >
      <div className={classes.filters}>
        <TextInput
          label={text("templates.search")}
          value={search.q ?? ""}
          onChange={(event) => set({ q: event.currentTarget.value || undefined })}
        />
        <NativeSelect
          label={text("templates.column.kind")}
          value={search.kind ?? ""}
          onChange={(event) => set({ kind: KINDS.find((kind) => kind === event.currentTarget.value) })}
          data={[{ value: "", label: text("templates.all") }, ...KINDS.map((kind) => ({ value: kind, label: text(`templates.kind.${kind}`) }))]}
        />
        <NativeSelect
          label={text("templates.column.origin")}
          value={search.origin ?? ""}
          onChange={(event) => {
            const origin = event.currentTarget.value;
            set({ origin: origin === "installation" || origin === "workspace" ? origin : undefined });
          }}
          data={[
            { value: "", label: text("templates.all") },
            { value: "workspace", label: text("templates.origin.workspace") },
            { value: "installation", label: text("templates.origin.installation") },
          ]}
        />
      </div>
      {templates.isError ? <ProblemView error={templates.error} retry={() => void templates.refetch()} /> : null}
      <div className={classes.list}>
        <DataTable
          label={text("app.page.templates")}
          rows={rows}
          columns={columns}
          rowId={({ id, origin }) => `${origin} ${id}`}
          sort={search.sort === undefined ? null : { column: search.sort, descending: search.descending ?? false }}
          onSort={(chosen) => set({ sort: chosen?.column, descending: chosen?.descending || undefined })}
          empty={templates.isSuccess ? <Empty title={text("templates.none")}>{text("templates.none_details")}</Empty> : null}
        />
      </div>
    </Page>
  );
}

interface Filters {
  q?: string | undefined;
  kind?: TemplateView["kind"] | undefined;
  origin?: TemplateView["origin"] | undefined;
}

function wanted(templates: readonly TemplateView[], { q, kind, origin }: Filters): TemplateView[] {
  const words = (q ?? "").toLowerCase().split(/\s+/).filter((word) => word !== "");
  return templates.filter((template) => {
    if (kind !== undefined && template.kind !== kind) return false;
    if (origin !== undefined && template.origin !== origin) return false;
    const said = [template.id, template.name, template.description, template.category, ...template.tools].join(" ").toLowerCase();
    return words.every((word) => said.includes(word));
  });
}

function templateColumns(cluster: string): Column<TemplateView>[] {
  return [
    {
      id: "name",
      head: text("templates.column.name"),
      width: "minmax(180px, 2fr)",
      value: ({ name }) => name.toLowerCase(),
      cell: ({ id, name }) => (
        <Link to="/c/$cluster/templates/$template" params={{ cluster, template: id }} search={{}}>
          <UserText cut>{name}</UserText>
        </Link>
      ),
    },
    { id: "kind", head: text("templates.column.kind"), width: "100px", value: ({ kind }) => kind, cell: ({ kind }) => text(`templates.kind.${kind}`) },
    {
      id: "state",
      head: text("templates.column.state"),
      width: "150px",
      value: (template) => stateOf(template),
      cell: (template) => text(`templates.state_of.${stateOf(template)}`),
    },
    { id: "origin", head: text("templates.column.origin"), width: "110px", value: ({ origin }) => origin, cell: ({ origin }) => text(`templates.origin.${origin}`) },
    { id: "category", head: text("templates.column.category"), width: "minmax(90px, 1fr)", value: ({ category }) => category, cell: ({ category }) => <UserText cut>{category}</UserText> },
    { id: "description", head: text("templates.column.description"), width: "minmax(160px, 3fr)", cell: ({ description }) => <UserText cut>{description}</UserText> },
    {
      id: "use",
      head: text("templates.column.use"),
      width: "70px",
      cell: (template) =>
        stateOf(template) === "usable" ? (
          <Link to="/c/$cluster/submit" params={{ cluster }} search={{ template: template.id }}>
            {text("templates.use")}
          </Link>
        ) : null,
    },
  ];
}

/** A template of a workspace cannot be used before a version is published. */
export function stateOf({ origin, ready }: Pick<TemplateView, "origin" | "ready">): "draft" | "usable" | "not_ready" {
  if (ready) return "usable";
  return origin === "workspace" ? "draft" : "not_ready";
}

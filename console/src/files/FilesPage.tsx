/** The files of the bucket and of the shared folder. */

import { SegmentedControl, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { profileQuery } from "../api/queries";
import { text } from "../texts";
import { Page } from "../ui/Page";
import { SavedViews } from "../views/SavedViews";
import { AreasNote } from "./AreasNote";
import { Crumbs } from "./Crumbs";
import type { Dialog } from "./dialogs/Dialogs";
import { Dialogs } from "./dialogs/Dialogs";
import type { Entry } from "./queries";
import { FilePanel } from "./FilePanel";
import classes from "./Files.module.css";
import { FileTable } from "./FileTable";
import { mayShare, mayWrite, type Root } from "./paths";
import { SelectionActions } from "./SelectionActions";
import { UnfinishedUploads } from "./upload/UnfinishedUploads";
import { UploadArea, UploadButtons } from "./upload/UploadArea";
import { UploadPanel } from "./upload/UploadPanel";
import { useUploadTo } from "./upload/useUploadTo";
import { useFolder } from "./useFolder";

const route = getRouteApi("/c/$cluster/files");

export function FilesPage() {
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const root = search.root ?? "bucket";
  const path = search.path ?? "";
  // Another folder is another page: nothing that was chosen in one stays chosen in the next.
  return <FolderPage key={`${cluster} ${root} ${path}`} cluster={cluster} root={root} path={path} />;
}

function FolderPage({ cluster, root, path }: { cluster: string; root: Root; path: string }) {
  const { file: openFile } = route.useSearch();
  const navigate = route.useNavigate();
  const role = useQuery(profileQuery).data?.role ?? "viewer";
  const folder = useFolder(cluster, root, path);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const writable = mayWrite(root, path, role);
  const uploadTo = useUploadTo(cluster, path, folder.entries);
  const selected = folder.entries.filter((entry) => chosen.has(entry.path));
  const openEntry: Entry | undefined = folder.entries.find((entry) => entry.path === openFile);
  const close = () => void navigate({ search: (before) => ({ ...before, file: undefined }) });

  return (
    <Page
      title={text("app.page.files")}
      actions={
        <>
          <SegmentedControl
            aria-label={text("files.root.label")}
            value={root}
            onChange={(value) => void navigate({ search: value === "folder" ? { root: "folder" } : {} })}
            data={[
              { value: "bucket", label: text("files.root.bucket") },
              { value: "folder", label: text("files.root.folder") },
            ]}
          />
          <SavedViews page="files" />
          {writable ? <UploadButtons upload={uploadTo.choose} newFolder={() => setDialog({ kind: "folder" })} /> : null}
        </>
      }
    >
      <div className={classes.bar}>
        <Crumbs cluster={cluster} root={root} path={path} />
        {selected.length > 0 ? (
          <SelectionActions
            cluster={cluster}
            root={root}
            selected={selected}
            writable={writable}
            mayShare={mayShare(role)}
            open={setDialog}
            unselect={() => setChosen(new Set())}
          />
        ) : (
          <Text size="xs" c="dimmed">
            {root === "bucket" && path === "" ? <AreasNote cluster={cluster} mayUpload={role !== "viewer"} /> : whose(root, folder.owner)}
          </Text>
        )}
      </div>
      <UploadArea enabled={writable} drop={uploadTo.drop} folder={path}>
        <FileTable cluster={cluster} root={root} path={path} folder={folder} writable={writable} chosen={chosen} choose={setChosen} />
      </UploadArea>
      {writable ? <UnfinishedUploads cluster={cluster} path={path} /> : null}
      <UploadPanel />
      {uploadTo.question}
      <FilePanel
        covered={dialog !== null}
        cluster={cluster}
        root={root}
        path={openFile ?? null}
        entry={openEntry ?? null}
        writable={writable}
        mayShare={mayShare(role)}
        open={setDialog}
        close={close}
      />
      <Dialogs
        cluster={cluster}
        path={path}
        dialog={dialog}
        close={() => setDialog(null)}
        acted={() => {
          setChosen(new Set());
          if (openFile !== undefined) close();
        }}
      />
    </Page>
  );
}

function whose(root: Root, owner: string | null): string {
  if (root === "folder") return text("files.folder_read_only");
  return owner === null ? text("files.everybody") : text("files.whose", { name: owner });
}

/** A look at a file, without opening it: text as text, an image of a type that we name. */

import { Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { bytes } from "../../ui/format";
import { ProblemView } from "../../ui/ProblemView";
import classes from "../Files.module.css";
import { nameOf, type Root } from "../paths";
import { readPreview } from "./preview";

interface Props {
  cluster: string;
  root: Root;
  path: string;
  size: number;
  /** Changes with the content. */
  version: string;
}

export function FilePreview({ cluster, root, path, size, version }: Props) {
  const preview = useQuery({
    queryKey: ["preview", cluster, root, path, size, version],
    queryFn: ({ signal }) => readPreview(cluster, root, path, size, signal),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  });
  const name = visible(nameOf(path));
  if (preview.isError) return <ProblemView error={preview.error} retry={() => void preview.refetch()} />;
  if (preview.data === undefined) return <Skeleton height={240} />;
  switch (preview.data.kind) {
    case "none":
      return (
        <>
          <Text fw={600}>{text("files.preview.none")}</Text>
          <Text size="sm" c="dimmed">
            {text("files.preview.none_details")}
          </Text>
        </>
      );
    case "image":
      return <Image image={preview.data.image} name={name} />;
    case "text":
      if (preview.data.text === "") return <Text size="sm">{text("files.preview.empty")}</Text>;
      return (
        <>
          {preview.data.whole ? null : (
            <Text size="xs" c="dimmed">
              {text("files.preview.part", { size: bytes(size) })}
            </Text>
          )}
          <pre className={classes.content} tabIndex={0} role="region" aria-label={text("files.preview.content", { name })}>
            {visible(preview.data.text)}
          </pre>
        </>
      );
  }
}

function Image({ image, name }: { image: Blob; name: string }) {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(image);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [image]);
  return address === null ? null : <img className={classes.image} src={address} alt={text("files.preview.image", { name })} />;
}

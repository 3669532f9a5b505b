import type { ComponentChildren } from "preact";
import type { RequestStatus } from "../../contract/account/requestStatus.ts";
import { words } from "../language.ts";

export type TagTone = "neutral" | "info" | "good" | "warning" | "bad";

/** A short state with a dot of its colour. The text alone must tell it. */
export function Tag({
  tone = "neutral",
  children,
}: {
  tone?: TagTone;
  children: ComponentChildren;
}) {
  return <span class={`tag tag-${tone}`}>{children}</span>;
}

const tones: Readonly<Record<RequestStatus, TagTone>> = {
  running: "info",
  done: "good",
  failed: "bad",
  cancelled: "warning",
  interrupted: "bad",
};

/** How a request ended. */
export function Status({ status }: { status: RequestStatus }) {
  return <Tag tone={tones[status]}>{words.status[status]}</Tag>;
}

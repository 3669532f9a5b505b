import type { JsonObjectText } from "../../lib/json.ts";

/** Bytes of a body that are elsewhere while a task runs. */
export interface HeldBytes {
  bytes: Uint8Array;
}

/** The text of a large body. Its bytes may go to the Worker again. */
export type LargeText = JsonObjectText & HeldBytes;

export function largeText({ bytes, members }: Pick<LargeText, "bytes" | "members">): LargeText {
  return { bytes, ascii: undefined, members, duplicateKey: undefined };
}

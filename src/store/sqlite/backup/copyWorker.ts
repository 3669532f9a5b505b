import { sqliteFault } from "../sqlite.ts";
import { DamagedStoreError, StoreError } from "../../storeError.ts";
import type { CopyMessage, CopyReply, CopyStart } from "./copying.ts";
import { copyBackup, copyDatabase } from "./verifiedCopy.ts";

declare const self: Worker;

/** Makes one verified copy. The main thread handles signals meanwhile. */
function serveCopy(): void {
  self.onmessage = async ({ data }: MessageEvent<CopyStart>) => {
    send(await replyTo(data));
  };
}

function send(message: CopyMessage): void {
  self.postMessage(message);
}

async function replyTo(order: CopyStart): Promise<CopyReply> {
  try {
    const { from, to } = order;
    const copy =
      order.kind === "snapshot"
        ? await copyDatabase(from, to, (done, total) => send({ kind: "checking", done, total }))
        : await copyBackup(from, to, order.actor);
    return { kind: "copied", copy };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { kind: "failed", message, reason: reasonOf(error) };
  }
}

function reasonOf(error: unknown): Extract<CopyReply, { kind: "failed" }>["reason"] {
  if (sqliteFault(error) === "full") return "noRoom";
  if (error instanceof DamagedStoreError) return "damaged";
  return error instanceof StoreError ? "store" : "fault";
}

if (!Bun.isMainThread) serveCopy();

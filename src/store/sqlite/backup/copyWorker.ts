import type { CopyOrder, CopyReply } from "./copying.ts";
import { DamagedStoreError, StoreError } from "../../storeError.ts";
import { copyBackup, copyDatabase } from "./verifiedCopy.ts";

declare const self: Worker;

/** Makes one verified copy. The main thread handles signals meanwhile. */
function serveCopy(): void {
  self.onmessage = ({ data }: MessageEvent<CopyOrder>) => {
    self.postMessage(replyTo(data));
  };
}

function replyTo(order: CopyOrder): CopyReply {
  try {
    const { from, to } = order;
    const copy =
      order.kind === "snapshot" ? copyDatabase(from, to) : copyBackup(from, to, order.actor);
    return { ok: true, copy };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { ok: false, message, kind: kindOf(error) };
  }
}

function kindOf(error: unknown): Extract<CopyReply, { ok: false }>["kind"] {
  if (error instanceof DamagedStoreError) return "damaged";
  return error instanceof StoreError ? "store" : "other";
}

if (!Bun.isMainThread) serveCopy();

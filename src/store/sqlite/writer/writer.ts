import { FileWriter, type SentBatch, type WrittenFile } from "./fileWriter.ts";

declare const self: Worker;

/** The last message to the Worker: it closes its connection. The first one is a WrittenFile, the others are batches. */
export interface WriterClose {
  kind: "close";
}

export type WriterMessage =
  | { kind: "ready" }
  /** In JSON: see SentOutcome. */
  | { kind: "outcome"; outcome: string }
  /** The last message: the connection is closed. */
  | { kind: "closed" }
  | { kind: "fatal"; message: string };

/** The replica of a gateway that serves by itself. */
const OWN_REPLICA = 0;

/**
 * Runs in the Worker that owns the one writing connection of a serving gateway. Each message is a batch and one
 * commit: the operations that were requested during the commit before it, in their order.
 */
function serveBatches(): void {
  let writer: FileWriter | undefined;
  self.onmessage = ({ data }: MessageEvent<WrittenFile | SentBatch | WriterClose>) => {
    try {
      if ("batch" in data) {
        if (!writer) return;
        const [outcome] = writer.run([{ ...data, replica: OWN_REPLICA }]);
        reply({ kind: "outcome", outcome: outcome?.text ?? "" });
        writer.checkpointIfDue();
      } else if ("path" in data) {
        writer = new FileWriter(data);
        reply({ kind: "ready" });
      } else if (writer) {
        writer.close();
        reply({ kind: "closed" });
      }
    } catch (error) {
      // Later operations depend on this batch: nothing more is written.
      writer = undefined;
      reply({ kind: "fatal", message: error instanceof Error ? error.message : String(error) });
    }
  };
}

function reply(message: WriterMessage): void {
  self.postMessage(message);
}

if (!Bun.isMainThread) serveBatches();

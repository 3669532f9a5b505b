import { ApiError, type ErrorExtra, type ErrorStatus } from "../../contract/errors.ts";
import { walk } from "../../lib/json.ts";
import { UnsupportedRequestError } from "../../providers/provider.ts";
import { tasks, type TaskName } from "./tasks.ts";

declare const self: Worker;

/** A message to the Worker. The body is transferred, not copied. */
export interface TaskMessage {
  readonly name: TaskName;
  readonly body: Uint8Array;
  readonly data: unknown;
}

/** The answer. It brings the body back. */
export interface TaskReply {
  readonly body: Uint8Array;
  readonly outcome: TaskOutcome;
}

type TaskOutcome =
  | { readonly kind: "result"; readonly result: unknown }
  | {
      readonly kind: "refused";
      readonly status: ErrorStatus;
      readonly message: string;
      readonly extra: ErrorExtra;
    }
  | { readonly kind: "unsupported"; readonly message: string }
  /** The message of an unexpected error may quote the body, so only its name and its place are told. */
  | { readonly kind: "failed"; readonly problem: string };

self.onmessage = ({ data: { name, body, data } }: MessageEvent<TaskMessage>) => {
  const reply: TaskReply = { body, outcome: outcomeOf(name, body, data) };
  self.postMessage(reply, buffersOf(reply));
};

/** The memory of all large parts of a message, which is transferred. */
function buffersOf({ body, outcome }: TaskReply): ArrayBuffer[] {
  const buffers = new Set([body.buffer]);
  const result = outcome.kind === "result" ? outcome.result : undefined;
  walk(result, (found) => {
    const isOwn = found instanceof Uint8Array && found.length === found.buffer.byteLength;
    if (isOwn) buffers.add(found.buffer);
    return typeof found === "object" && !(found instanceof Uint8Array);
  });
  return [...buffers] as ArrayBuffer[];
}

function outcomeOf(name: TaskName, body: Uint8Array, data: unknown): TaskOutcome {
  try {
    const task = tasks[name] as (body: Uint8Array, data: unknown) => unknown;
    return { kind: "result", result: task(body, data) };
  } catch (error) {
    if (error instanceof ApiError) {
      const { status, message, extra } = error;
      return { kind: "refused", status, message, extra };
    }
    if (error instanceof UnsupportedRequestError)
      return { kind: "unsupported", message: error.message };
    return { kind: "failed", problem: problemOf(error) };
  }
}

function problemOf(error: unknown): string {
  if (!(error instanceof Error)) return "not an error";
  const places = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return [error.name, ...places].join("\n");
}

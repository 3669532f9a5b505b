import { JsonAnswerReader } from "../fuzz/answerReader.ts";
import { readAnswer, unclear, type ReadAnswer } from "./answerText.ts";

/** What a client has of the answer to a chat or responses request of its own; it may grow until it is over. */
export interface SeenAnswer {
  /** The `x-request-id`. */
  readonly id: string;
  readonly status: number;
  /** All that came of its body. */
  readonly text: string;
  /** The server ended it in good order: nothing more was to come. */
  readonly isOver: boolean;
  /** The `x-tollgate-cost-rub`, if there was one. */
  readonly costRub: string | null;
  /** What it must be billed, in nano-roubles, where its client knows that. */
  readonly due?: bigint;
}

/** What a provider sent on one call. */
export interface ProducedAnswer {
  /** The `x-request-id` that the gateway sent. */
  readonly id: string;
  readonly requestLine: string;
  /** Takes the next bytes that are sent. */
  sends(bytes: string | Uint8Array): void;
  /** It began to answer: there was something to pay for. */
  readonly hasBegun: boolean;
  /** What all of it amounts to. */
  read(): ReadAnswer;
}

/** More than this is no answer that an auditor has to read. */
const PRODUCED_BYTES_MAX = 1_048_576;

const okStatus = "HTTP/1.1 200";

export function producedAnswer(id: string, requestLine: string): ProducedAnswer {
  let pieces: (string | Uint8Array)[] = [];
  let length = 0;
  return {
    id,
    requestLine,
    get hasBegun() {
      return Buffer.from(pieces[0] ?? "").toString("latin1", 0, okStatus.length) === okStatus;
    },
    sends(bytes) {
      length += bytes.length;
      if (length > PRODUCED_BYTES_MAX) pieces = pieces.slice(0, 1);
      else pieces.push(bytes);
    },
    read() {
      if (length > PRODUCED_BYTES_MAX) return unclear;
      return readProduced(pieces, requestLine);
    },
  };
}

/** Only what came whole by its framing is clear: what a gateway makes of the rest is not for the provider to say. */
function readProduced(pieces: readonly (string | Uint8Array)[], requestLine: string): ReadAnswer {
  if (!/\/(?:chat\/completions|responses) /.test(requestLine)) return unclear;
  const bytes = pieces.map((piece) =>
    typeof piece === "string" ? Buffer.from(piece, "latin1") : piece,
  );
  try {
    const [answer] = new JsonAnswerReader(() => false).read(Buffer.concat(bytes));
    if (answer === undefined || answer.headers.has("content-encoding")) return unclear;
    if (answer.status !== 200) return { outcome: "failed", tokens: undefined };
    return readAnswer(answer.body.toString());
  } catch {
    return unclear;
  }
}

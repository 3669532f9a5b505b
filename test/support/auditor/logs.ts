import { JsonAnswerReader } from "../world/answerReader.ts";
import { readAnswer, unclear, type ReadAnswer } from "./answerText.ts";

/** What a client received of the answer of a provider; it may grow until `isOver`. */
export interface SeenAnswer {
  /** The `x-request-id`. */
  readonly id: string;
  readonly status: number;
  /** All that came of its body. */
  readonly text: string;
  /** The server ended the answer properly. */
  readonly isOver: boolean;
  /** The `x-tollgate-cost-rub`, if there was one. */
  readonly costRub: string | null;
  /** The expected bill in nano-roubles, where the client knows it. */
  readonly due?: bigint;
  /** The gateway died before the end of the answer, so there may be no record of it. */
  readonly isCutByCrash?: boolean;
}

/** The answers of a gateway that died. */
export function cutByCrash(seen: readonly SeenAnswer[]): readonly SeenAnswer[] {
  return seen.map((answer) => ({ ...answer, isCutByCrash: !answer.isOver }));
}

/** What a provider sent on one call. */
export interface ProducedAnswer {
  /** The `x-request-id` that the gateway sent. */
  readonly id: string;
  readonly requestLine: string;
  /** Takes the next bytes that are sent. */
  sends(bytes: string | Uint8Array): void;
  /** The provider began to answer, so there is something to pay for. */
  readonly hasBegun: boolean;
  /** The outcome and the tokens of the whole answer. */
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

/** Only an answer with complete framing is clear. For the rest the gateway decides. */
function readProduced(pieces: readonly (string | Uint8Array)[], requestLine: string): ReadAnswer {
  if (!/\/(?:chat\/completions|responses|messages|embeddings) /.test(requestLine)) return unclear;
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

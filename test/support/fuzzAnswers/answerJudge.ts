import { parseRoubles } from "../../../src/lib/money.ts";
import { differences, type ApiDescription } from "../gateway/apiDescription.ts";
import type { RawAnswer } from "../world/answerReader.ts";
import { isBare, isStream, Judge } from "../fuzz/judge.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { foreignHeaders } from "../gateway/ownHeaders.ts";
import { poison, type AnswerCase } from "./answerCase.ts";
import { backupCharge, backupText } from "./answerContent.ts";
import {
  kept,
  readChatJson,
  readChatStream,
  readResponseJson,
  readResponseStream,
  type ReadAnswer,
} from "./readAnswer.ts";
import { secrets } from "./refusals.ts";

/** The result of a request for its client. */
export type Outcome =
  /** The provider's answer, whole. */
  | "whole"
  /** The whole answer of the backup provider. */
  | "backup"
  /** It began, and ended with the error of the stream. */
  | "broken"
  /** A failure that the provider itself reported. */
  | "failed"
  | "unavailable"
  | "refused"
  | "missing";

/** The expected record of a request. */
export interface Verdict {
  readonly id: string;
  readonly outcome: Outcome;
  /** Undefined if the client's answer does not determine it. */
  readonly charge: bigint | undefined;
  readonly isEstimated: boolean | undefined;
}

export interface Judged {
  readonly verdict: Verdict | undefined;
  readonly problems: readonly string[];
}

/** Finds what is wrong with answers, whatever their providers did. */
export class AnswerJudge {
  readonly #description: ApiDescription;
  readonly #judge: Judge;

  constructor(description: ApiDescription) {
    this.#description = description;
    this.#judge = new Judge(description);
  }

  judge(asked: AnswerCase, answer: RawAnswer): Judged {
    if (isBare(answer)) return { verdict: undefined, problems: [`a bare ${answer.status}`] };
    const problems = [...this.#judge.ofHeaders(answer), ...ofAny(asked, answer)];
    try {
      const { verdict, problems: more } =
        answer.status === 200 ? this.#ofRead(asked, answer) : this.#ofError(asked, answer);
      problems.push(...more, ...ofExpected(asked, verdict.outcome));
      return { verdict, problems };
    } catch (error) {
      return { verdict: undefined, problems: [...problems, `no answer: ${String(error)}`] };
    }
  }

  #ofRead(asked: AnswerCase, answer: RawAnswer): Sentence {
    const read = readOf(asked, answer);
    const verdict = verdictOf(asked, answer, read);
    const schema = asked.stream ? "ChatChunk" : "ChatAnswer";
    const problems = [
      ...read.objects.flatMap((one) => this.#description.complaints(schema, one)),
      ...read.problems,
      ...(read.end === "error" ? ofStreamError(asked, answer, read) : []),
      ...(asked.endpoint === "chat" ? ofChat(asked, answer, read) : ofRelayed(asked, read)),
      ...(verdict.outcome === "whole" ? ofWhole(asked, read) : []),
    ];
    return { verdict, problems };
  }

  #ofError(asked: AnswerCase, { status, headers, body }: RawAnswer): Sentence {
    const text = body.toString();
    const reply = { status, headers, text, body: JSON.parse(text), id: "" };
    const { message } = (reply.body as { error: { message: string } }).error;
    const operation = asked.endpoint === "chat" ? chatOperation : responsesOperation;
    const outcome = errorOutcomes[status];
    if (outcome === undefined) throw new Error(`${status} ${message}`);
    const problems = [
      ...differences(this.#description, operation, reply, false),
      ...ofMessage(asked, outcome, message),
      ...kept([[!secrets.some((secret) => text.includes(secret)), "a secret"]]),
    ];
    const id = headers.get("x-request-id") ?? "";
    return { verdict: { id, outcome, charge: 0n, isEstimated: false }, problems };
  }
}

/** The outcome of a request, and its problems. */
interface Sentence {
  readonly verdict: Verdict;
  readonly problems: readonly string[];
}

const chatOperation = "POST /v1/chat/completions";
const responsesOperation = "POST /v1/responses";
const errorOutcomes: Readonly<Record<number, Outcome>> = {
  400: "refused",
  404: "missing",
  502: "unavailable",
};
const callersStatus = /HTTP\/1\.[01] (?:400|409|422)/;

/** The client gets a refusal only where its provider refused, with the provider's message. */
function ofMessage(asked: AnswerCase, outcome: Outcome, message: string): string[] {
  const { delivery, endpoint, expected } = asked;
  const sent = delivery.bytes.toString("latin1");
  const isSaid = {
    refused: callersStatus.test(sent),
    missing: endpoint === "responses" && /HTTP\/1\.[01] 404/.test(sent),
    unavailable: message === "all providers unavailable",
    broken: message === "upstream provider failure",
  };
  const words = expected.kind === "refusal" ? expected.text : "";
  return kept([
    [!(outcome in isSaid) || isSaid[outcome as keyof typeof isSaid], `${outcome}: ${message}`],
    [message.includes(words), `another message than the provider's: ${message}`],
    [!secrets.some((secret) => message.includes(secret)), `a secret: ${message}`],
  ]);
}

/** A failure before the first content is a 502, or the next route answers; but the head may have been sent before. */
function ofStreamError(asked: AnswerCase, { body }: RawAnswer, read: ReadAnswer): string[] {
  const isLate = body.includes(": keep-alive\n\n");
  // The end of one choice is content too, and waits for the ends of the others.
  const isKeptBack = asked.said.choices.length > 1;
  return [
    ...ofMessage(asked, outcomeOf(read), read.message),
    ...kept([[read.hasBegun || isLate || isKeptBack, "a stream that broke before it began"]]),
  ];
}

const outcomesByMessage: Readonly<Record<string, Outcome>> = {
  "upstream provider failure": "broken",
  "all providers unavailable": "unavailable",
  "resource not found": "missing",
};

function outcomeOf({ end, message }: ReadAnswer): Outcome {
  return end === "error" ? (outcomesByMessage[message] ?? "refused") : end;
}

/** Checks for every answer. */
function ofAny({ delivery, stream, said }: AnswerCase, answer: RawAnswer): string[] {
  const { status, headers, body } = answer;
  const text = body.toString();
  const tags = text.match(/«\d+»/g) ?? [];
  const foreign = foreignHeaders(headers);
  return kept([
    [foreign.length === 0, `headers of somebody else: ${foreign.join()}`],
    [!JSON.stringify([...headers]).includes("canary"), "a header of the provider's"],
    [isStream(headers) === (stream && status === 200), "not the form that was asked for"],
    [!text.includes(poison), "bytes after the end of an answer"],
    [tags.every((tag) => tag === said.tag || delivery.bytes.includes(tag)), "another's words"],
  ]);
}

function readOf(asked: AnswerCase, answer: RawAnswer): ReadAnswer {
  const { endpoint, stream, showsUsage, said } = asked;
  if (endpoint === "responses")
    return stream ? readResponseStream(answer) : readResponseJson(answer);
  return stream
    ? readChatStream(answer, { showsUsage, choiceCount: said.choices.length })
    : readChatJson(answer);
}

function verdictOf(asked: AnswerCase, { headers, body }: RawAnswer, read: ReadAnswer): Verdict {
  const id = headers.get("x-request-id") ?? "";
  const outcome = outcomeOf(read);
  if (outcome !== "whole") return { id, outcome, charge: 0n, isEstimated: false };
  if (body.includes(backupText(asked.number)))
    return { id, outcome: "backup", charge: backupCharge, isEstimated: false };
  const { tokens } = asked.said;
  const isSure = asked.expected.kind === "whole" && asked.expected.hasUsage;
  if (isSure)
    return {
      id,
      outcome: "whole",
      charge: tokens ? costOf(tokens) : read.charge,
      isEstimated: !tokens,
    };
  // A response shows the reported usage even if it is not believed; a chat shows the charged one.
  const isReported = asked.endpoint === "responses";
  const isEstimated = isReported ? read.charge === undefined : undefined;
  return { id, outcome: "whole", charge: read.charge, isEstimated };
}

/** Checks for every 200 to a chat. */
function ofChat({ stream, model }: AnswerCase, answer: RawAnswer, read: ReadAnswer): string[] {
  const cost = answer.headers.get("x-tollgate-cost-rub");
  const id = (answer.headers.get("x-request-id") ?? "").replace("req_", "chatcmpl-");
  const names = read.objects as readonly Readonly<Record<string, unknown>>[];
  return kept([
    [stream || parseRoubles(cost ?? "") === read.charge, `it costs ${cost}, not what it shows`],
    [names.every((one) => one["id"] === id && one["model"] === model), "another's name"],
  ]);
}

/** The provider's bytes are passed on as they are, up to where the answer ends. */
function ofRelayed({ body, number }: AnswerCase, { relayed }: ReadAnswer): string[] {
  const isBackups = relayed.includes(backupText(number));
  const sent = body?.toString() ?? relayed;
  // If the last blank line did not arrive, it is the gateway's own.
  const isKept = sent.startsWith(relayed) || `${sent}\n\n` === relayed;
  return kept([[isBackups || isKept, "other bytes than the provider's"]]);
}

/** Checks for an answer whose provider sent it whole. */
function ofWhole(asked: AnswerCase, read: ReadAnswer): string[] {
  const { expected, said, endpoint, body } = asked;
  if (expected.kind !== "whole") return [];
  if (endpoint === "responses")
    return kept([[!expected.hasUsage || body?.toString() === read.relayed, "not all bytes"]]);
  return said.choices.flatMap(({ texts, end }, index) =>
    kept([
      [read.texts.get(index) === texts.join(""), `choice ${index} is not what was said`],
      [read.reasons.get(index) === end, `choice ${index} ends with ${read.reasons.get(index)}`],
    ]),
  );
}

/** The possible outcomes of a request, by its provider's behaviour. */
function ofExpected({ expected, route }: AnswerCase, outcome: Outcome): string[] {
  const isServed = outcome === "whole" || outcome === "failed";
  const isRefused = outcome === "refused" || outcome === "missing";
  const isExpected = {
    whole: outcome === "whole",
    failure: !isServed && !isRefused,
    failed: outcome === "failed",
    refusal: isRefused,
    anything: true,
  }[expected.kind];
  return kept([
    [isExpected, `${outcome}, where ${expected.kind} was to be expected`],
    [!route.hasBackup || outcome !== "unavailable", "unavailable, though there is another route"],
    [route.hasBackup || outcome !== "backup", "an answer from nowhere"],
  ]);
}

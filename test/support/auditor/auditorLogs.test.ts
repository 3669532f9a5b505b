import { describe, expect, test } from "bun:test";
import { tamper, copySampleLedgerBefore } from "../store/sampleLedger.ts";
import {
  completion,
  doneEvent,
  helloEvent,
  stopEvent,
  usageOnly,
} from "../provider/chatAnswers.ts";
import {
  endEvent,
  message,
  messageEvent,
  startEvent,
  textEvent,
} from "../provider/anthropicAnswers.ts";
import { ended } from "../provider/responsesAnswers.ts";
import { auditFile, openAuditor } from "./auditor.ts";
import { producedAnswer, type ProducedAnswer, type SeenAnswer } from "./logs.ts";

const database = copySampleLedgerBefore();

/** The charge of `req_done` in the sample ledger. */
const usage = {
  prompt_tokens: 100,
  completion_tokens: 40,
  prompt_tokens_details: { cached_tokens: 10, cache_write_tokens: 5 },
};
const whole = JSON.stringify(completion({ usage }));
const stream = [helloEvent, stopEvent, usageOnly(usage), doneEvent].join("");
/** The same in Anthropic's interface. */
const messageUsage = {
  input_tokens: 85,
  cache_read_input_tokens: 10,
  cache_creation_input_tokens: 5,
  output_tokens: 40,
};
const wholeMessage = JSON.stringify(message({ usage: messageUsage }));
const { output_tokens: _, ...inputUsage } = messageUsage;
const messageStream = [
  messageEvent("message_start", { message: { usage: { ...inputUsage, output_tokens: 1 } } }),
  textEvent("Hello"),
  messageEvent("message_delta", {
    delta: { stop_reason: "end_turn" },
    usage: { output_tokens: 40 },
  }),
].join("");

function seen(id: string, text: string, more: Partial<SeenAnswer> = {}): SeenAnswer {
  return { id, status: 200, text, isOver: true, costRub: null, ...more };
}

/** A provider's answer with a content-length, in pieces. */
function produced(
  id: string,
  body: string,
  status = 200,
  face = "chat/completions",
): ProducedAnswer {
  const answer = producedAnswer(id, `POST /v1/${face} HTTP/1.1`);
  answer.sends(`HTTP/1.1 ${status} Scripted\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`);
  answer.sends(Buffer.from(body.slice(0, 9)));
  answer.sends(Buffer.from(body.slice(9)));
  return answer;
}

describe("what clients have of their answers", () => {
  test.each([
    ["a whole answer in JSON", seen("req_done", whole, { costRub: "0.000010295", due: 10_295n })],
    ["a whole stream", seen("req_done", stream)],
    ["a whole message", seen("req_done", wholeMessage)],
    ["a whole stream of a message", seen("req_done", messageStream)],
    ["a part of an answer, whose client left", seen("req_done", helloEvent, { isOver: false })],
    ["a part of an answer to a request that was cancelled", seen("req_cancelled", helloEvent)],
    ["a whole answer to a request that was folded", seen("req_old", whole)],
    ["a refusal without a record", seen("req_refused", "{}", { status: 402 })],
    [
      "a part of an answer without a record, cut by a crash",
      seen("req_lost", helloEvent, { isOver: false, isCutByCrash: true }),
    ],
  ])("agrees with the database: %s", (_, answer) => {
    expect(auditFile(database.path, { seen: [answer] })).toEqual([]);
  });

  test.each([
    [
      "a whole answer without a committed row",
      seen("req_lost", whole),
      "a client has an answer to req_lost, and the database has no record of it",
    ],
    [
      "a whole answer without a committed row, before a crash",
      seen("req_lost", stream, { isOver: false, isCutByCrash: true }),
      "a client has an answer to req_lost, and the database has no record of it",
    ],
    [
      "the first byte of an answer without a committed row",
      seen("req_lost", "", { isOver: false }),
      "a client has an answer to req_lost, and the database has no record of it",
    ],
    [
      "success, of a request that was let go for nothing",
      seen("req_void", stream, { isOver: false }),
      "a client has all of req_void, which is failed",
    ],
    [
      "success, of a request that counts as left",
      seen("req_cancelled", whole),
      "a client has all of req_cancelled, which is cancelled",
    ],
    [
      "a failure, of a request that is done",
      seen("req_done", '{"error":{"message":"m","type":"provider_error"}}', { status: 502 }),
      "a client was told that req_done failed, which is done",
    ],
    [
      "a charged failure in the middle of a stream",
      seen("req_cancelled", `${helloEvent}data: {"error":{}}\n\n`),
      "a client was told that req_cancelled failed, and pays 10295",
    ],
    [
      "a stream that ended early, and is paid for as done",
      seen("req_done", helloEvent),
      "a client was left without the end of req_done, which is done",
    ],
    [
      "another cost than was charged",
      seen("req_done", whole, { costRub: "0.000010296" }),
      "a client was told that req_done costs 0.000010296, and pays 10295",
    ],
    [
      "other tokens than were billed",
      seen("req_done", JSON.stringify(completion())),
      "req_done is billed 10295, and what its client was shown costs 1800",
    ],
    [
      "other tokens than were billed, in a message",
      seen("req_done", JSON.stringify(message())),
      "req_done is billed 10295, and what its client was shown costs 1800",
    ],
    [
      "a stream of a message that failed, of a request that is done",
      seen("req_done", `${textEvent("Hello")}${messageEvent("error", { error: {} })}`),
      "a client was told that req_done failed, which is done",
    ],
    [
      "what is due by the config",
      seen("req_done", "{}", { due: 1n }),
      "req_done is billed 10295, and 1 were due",
    ],
  ])("differs from the database: %s", (_, answer, problem) => {
    if (answer.id === "req_void") tamper(database, voided("failed"));
    expect(auditFile(database.path, { seen: [answer] })).toContain(problem);
  });
});

test("a failure in a stream that its client caused is charged, and agrees with the database", () => {
  tamper(
    database,
    `UPDATE attempts SET outcome = 'isolated failure'
     WHERE request_id = (SELECT id FROM requests WHERE public_id = 'req_cancelled')`,
  );
  const answer = seen("req_cancelled", `${helloEvent}data: {"error":{}}\n\n`);
  expect(auditFile(database.path, { seen: [answer] })).toEqual([]);
});

/** Makes `req_done` free and renames it, everywhere but in the ledger. */
function voided(status: string): string {
  return `UPDATE requests SET public_id = 'req_void', status = '${status}', charge = 0, completion_tokens = 0,
    prompt_tokens = 0, cached_tokens = 0, cache_write_tokens = 0 WHERE public_id = 'req_done'`;
}

describe("what providers made", () => {
  const response = ended("resp_1", {
    usage: { input_tokens: 100, output_tokens: 40, cached_tokens: 10, cache_write_tokens: 5 },
  });
  test.each([
    ["JSON", produced("req_done", whole)],
    ["a stream", produced("req_done", stream)],
    ["a response", produced("req_done", JSON.stringify(response), 200, "responses")],
    ["a message", produced("req_done", wholeMessage, 200, "messages")],
    ["a stream of a message", produced("req_done", messageStream, 200, "messages")],
    [
      "what only the gateway can read",
      produced("req_done", "hello", 200, "models/m:generateContent"),
    ],
    ["a failure without a record", produced("req_nobody", "{}", 500)],
  ])("agrees with the database: %s", (_, answer) => {
    expect(auditFile(database.path, { produced: [answer] })).toEqual([]);
  });

  test("only the last try at a provider made the answer", () => {
    const tries = [produced("req_done", "{}", 500), produced("req_done", whole)];
    expect(auditFile(database.path, { produced: tries })).toEqual([]);
  });

  const estimated = "UPDATE requests SET estimated = 1 WHERE public_id = 'req_done'";
  test.each([
    [
      "a charge that is not the price of what was made",
      produced("req_done", JSON.stringify(completion())),
      "",
      "req_done is billed 10295, and what its provider made costs 1800",
    ],
    [
      "a charge for what a client left that is not the price of what was made",
      produced("req_cancelled", JSON.stringify(completion())),
      "",
      "req_cancelled is billed 10295, and what its provider made costs 1800",
    ],
    [
      "an exact charge for an answer without reported tokens",
      produced("req_done", JSON.stringify(completion({ usage: null }))),
      "",
      "req_done is no estimate, and its provider counted nothing",
    ],
    [
      "an estimate where the tokens were counted",
      produced("req_done", whole),
      estimated,
      "req_done is estimated, and its provider counted its tokens",
    ],
    [
      "an exact charge for a message whose end counts nothing",
      produced("req_done", startEvent + endEvent(null), 200, "messages"),
      "",
      "req_done is no estimate, and its provider counted nothing",
    ],
    [
      "a charge for a provider's failure",
      produced("req_done", "{}", 500),
      "",
      "req_done is done, and its provider failed",
    ],
    [
      "nothing for an answer that began before its client left",
      produced("req_void", helloEvent),
      voided("cancelled"),
      "req_void is cancelled for nothing, and its provider answered",
    ],
  ])("differs from the database: %s", (_, answer, statement, problem) => {
    if (statement !== "") tamper(database, statement);
    expect(auditFile(database.path, { produced: [answer] })).toContain(problem);
  });
});

describe("an auditor that benches tell what they see", () => {
  test("misses the provider of an answer, once it listens to any", async () => {
    const auditor = openAuditor({ path: database.path });
    auditor.seen.push(seen("req_done", whole));
    expect(await auditor.problems()).toEqual([]);
    auditor.listenTo({ log: undefined });
    auditor.seen.push(seen("req_done", whole));
    expect(await auditor.problems()).toEqual([
      "a client has an answer to req_done, and no provider was asked",
    ]);
    expect(await auditor.problems()).toEqual([]);
  });

  test("misses a credit that was acknowledged", async () => {
    const auditor = openAuditor({ path: database.path });
    auditor.credits.push("lost-ref");
    expect(await auditor.problems()).toEqual([
      "credit lost-ref was acknowledged, and is not there",
    ]);
  });
});

import { expect, test } from "bun:test";
import { isLong } from "../sample.ts";
import { message } from "../provider/anthropicAnswers.ts";
import { choice, usage } from "../provider/chatAnswers.ts";
import { chunksOf, expectRefusal, noProvider, type ExpectedError } from "../gateway/chatCalls.ts";
import { isMessagesForm, usualBody, type Form } from "./faultAnswers.ts";
import {
  nanoOf,
  type FaultSetup,
  type FaultRecord,
  type FaultReply,
  type FaultyRoute,
} from "./faultSetup.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { messageEvents } from "../gateway/messagesCalls.ts";
import { foreignHeaders } from "../gateway/ownHeaders.ts";
import { responseEvent } from "../provider/upstreamText.ts";

/** A row of the fault matrix, or a part of one, in the forms of request to which it applies. */
interface Row extends Omit<FaultyRoute, "hasNext"> {
  /** Its number in the matrix. */
  readonly row: number;
  readonly name: string;
  readonly forms: readonly Form[];
  /** Added to the minimal request. */
  readonly ask?: object;
}

/** The recorded outcome of the attempt at the faulty provider; by form where they differ. */
type Outcome = string | Readonly<Partial<Record<Form, string>>>;

/**
 * What reaches a client before its stream breaks: the texts of a chat, also in translated messages; the bytes and events of
 * a responses stream; the bytes of native messages.
 */
interface Before {
  readonly chat?: readonly string[];
  readonly responses?: readonly [text: string, events: number];
  readonly messages?: string;
}

/** The charge of a usual answer, in nano-roubles. */
export const usualCharge = costOf({ prompt: 20, cached: 5, cacheWrite: 3, completion: 7 });

/** A row whose request takes this long has hung. */
const rowTimeoutMs = 60_000;

/** Runs concurrently with the other rows of its file: a row mostly waits. */
export function testRow(row: number, name: string, run: () => Promise<void>): void {
  test.concurrent(`row ${row}: ${name}`, run, rowTimeoutMs);
}

let rowsSeen = 0;

/** In CI one form of a row, in turn. */
export function chosenForms<One>(forms: readonly One[]): readonly One[] {
  rowsSeen += 1;
  return isLong ? forms : forms.filter((_, at) => at === rowsSeen % forms.length);
}

/** Two tests per form: another route answers, and without another route the answer is a 502 that costs nothing. */
export function testFailover(
  setup: FaultSetup,
  rows: readonly (Row & { outcome: Outcome; retryAfter?: number | undefined })[],
): void {
  for (const { row, name, forms, outcome, retryAfter, ask, ...route } of rows) {
    for (const form of chosenForms(forms)) {
      const alone = setup.model(row, route);
      testRow(row, `${name} (${form}): 502 and no charge`, async () => {
        const reply = await setup.ask(form, alone, ask);
        expectUnavailable(reply, retryAfter);
        const record = await setup.record(reply, 0n);
        expectEnd(record, { status: "failed", charge: 0n });
        expect(record.attempts).toMatchObject([tried(reply, inForm(outcome, form))]);
      });
      const pair = setup.model(row, { ...route, hasNext: true });
      testRow(row, `${name} (${form}): the next route answers, one charge`, async () => {
        const reply = await setup.ask(form, pair, ask);
        expectUsual(form, reply);
        expect(setup.calls(pair)[1]).toBe(1);
        await expectSecond(setup, reply, inForm(outcome, form));
      });
    }
  }
}

/** The provider's refusal is the client's fault: no other provider is tried, and nothing is charged. */
export function testRefused(
  setup: FaultSetup,
  rows: readonly (Row & { outcome: string; refusal: ExpectedError; extra?: object })[],
): void {
  for (const { row, name, forms, outcome, refusal, extra, ask, ...route } of rows) {
    for (const form of chosenForms(forms)) {
      const model = setup.model(row, { ...route, hasNext: true });
      testRow(row, `${name} (${form}): ${refusal[0]}, and no other route`, async () => {
        const reply = await setup.ask(form, model, ask);
        expectRefused(reply, refusal, extra);
        expectOwnHeaders(reply);
        expect(setup.calls(model)).toEqual([1, 0]);
        const record = await setup.record(reply, 0n);
        expectEnd(record, { status: "failed", charge: 0n });
        expect(record.attempts).toMatchObject([tried(reply, outcome)]);
      });
    }
  }
}

/** The text before the fault reaches the client, then an error; no other provider is tried, nothing is charged. */
export function testBrokenStream(
  setup: FaultSetup,
  rows: readonly (Row & {
    outcome: Outcome;
    /** The provider did not end: its connection must not be kept waiting. */
    isLetGo?: boolean;
    before: Before;
  })[],
): void {
  for (const { row, name, forms, outcome, before, isLetGo, ask, ...route } of rows) {
    for (const form of chosenForms(forms)) {
      const model = setup.model(row, { ...route, hasNext: true });
      testRow(row, `${name} (${form}): what came, the error, no charge`, async () => {
        const reply = await setup.ask(form, model, ask);
        expect(reply.status).toBe(200);
        expectOwnHeaders(reply);
        expectBroken(form, reply, before);
        expect(setup.calls(model)).toEqual([1, 0]);
        const record = await setup.record(reply, 0n);
        expectEnd(record, { status: "failed", charge: 0n });
        expect(record.attempts).toMatchObject([tried(reply, inForm(outcome, form))]);
        if (isLetGo === true) await setup.released(model);
      });
    }
  }
}

/** The provider's answer is good enough: it is charged, and no other provider is tried. */
export function testServed(
  setup: FaultSetup,
  rows: readonly (Row & {
    charge: bigint;
    estimated?: boolean;
    status?: "done" | "failed" | "cancelled";
    /** The recorded outcome of the attempt; `ok` unless given. */
    outcome?: string;
    /** What the client must receive; the usual answer unless given. */
    sees?: (reply: FaultReply, form: Form) => void;
  })[],
): void {
  for (const one of rows) {
    const { row, name, forms, ask, sees, charge, status, estimated, outcome, ...route } = one;
    for (const form of chosenForms(forms)) {
      const model = setup.model(row, { ...route, hasNext: true });
      testRow(row, `${name} (${form}): served, and charged exactly`, async () => {
        const reply = await setup.ask(form, model, ask);
        if (sees === undefined) expectUsual(form, reply);
        else sees(reply, form);
        expectOwnHeaders(reply);
        expect(setup.calls(model)).toEqual([1, 0]);
        const record = await setup.record(reply, charge);
        expectEnd(record, { status: status ?? "done", charge, estimated: estimated ?? false });
        expect(record.attempts).toMatchObject([tried(reply, outcome ?? "ok")]);
        if (["chat", "messages", "translated messages"].includes(form)) expectCost(reply, charge);
      });
    }
  }
}

/** The other provider answered: two attempts, one charge. */
export async function expectSecond(
  setup: FaultSetup,
  reply: FaultReply,
  outcome: string,
): Promise<void> {
  const record = await setup.record(reply, usualCharge);
  const [, provider] = reply.providers;
  expectEnd(record, { status: "done", charge: usualCharge, provider });
  expect(record.attempts).toMatchObject([
    tried(reply, outcome),
    { provider, outcome: "ok", status: 200 },
  ]);
}

const SECONDS_LATE_MAX = 5;

/** No route was left. `retryAfter` is the header's value in seconds; on a busy machine it is some less. */
export function expectUnavailable(reply: FaultReply, retryAfter?: number): void {
  expectOwnHeaders(reply);
  const { headers } = reply;
  const seconds = headers.get("retry-after");
  if (retryAfter === undefined) expect(seconds).toBeNull();
  else expect(Number(seconds)).toBeWithin(retryAfter - SECONDS_LATE_MAX, retryAfter + 1);
  headers.delete("retry-after");
  const [status, , message] = noProvider;
  // Anthropic's word for a 502 with a time.
  const isOverloaded = isMessagesForm(reply.form) && retryAfter !== undefined;
  expectRefused(reply, isOverloaded ? [status, "overloaded_error", message] : noProvider);
}

/** Exactly this error, in the form of the interface. */
export function expectRefused(reply: FaultReply, refusal: ExpectedError, extra: object = {}): void {
  if (!isMessagesForm(reply.form)) return expectRefusal(reply, refusal, extra);
  const [status, type, message] = refusal;
  const shown = [status, type === "provider_error" ? "api_error" : type, message] as const;
  const { request_id: id, type: kind, ...body } = reply.body as Record<string, unknown>;
  expect([kind, id]).toEqual(["error", reply.id]);
  expectRefusal({ ...reply, body }, shown, extra);
}

/** The healthy provider's answer, whole, under the model that was asked for. */
export function expectUsual(form: Form, reply: FaultReply): void {
  expect(reply.status).toBe(200);
  expectOwnHeaders(reply);
  switch (form) {
    case "chat":
      expect(reply.body).toMatchObject({ model: reply.model, choices: [choice()], usage });
      expectCost(reply, usualCharge);
      return;
    case "translated messages":
      expect(reply.body).toEqual({ ...message(), ...ownIdentity(reply) });
      expectCost(reply, usualCharge);
      return;
    case "chat stream":
    case "translated messages stream":
      expectSaid(reply, ["", "Hello", " there"]);
      return;
    case "messages":
    case "embeddings":
      expectCost(reply, usualCharge);
      expect(reply.text).toBe(usualBody[form]);
      return;
    case "responses":
    case "responses stream":
    case "messages stream":
      expect(reply.text).toBe(usualBody[form]);
  }
}

/** What a message has of the gateway where another kind of provider wrote it. */
function ownIdentity({ id, model }: FaultReply): object {
  return { id: id.replace("req_", "msg_"), model };
}

/** A whole stream of a chat or of translated messages with these texts and the usual stop reason. */
export function expectSaid(reply: FaultReply, texts: readonly string[]): void {
  if (!isMessagesForm(reply.form)) {
    expect([textsOf(reply), reasonOf(reply)]).toEqual([[...texts], "stop"]);
    return;
  }
  const events = messageEvents(reply.text);
  expect(messageTexts(reply)).toEqual(texts.filter((text) => text !== ""));
  expect(events[0]?.data).toMatchObject({ message: ownIdentity(reply) });
  expect(events.slice(-3).map(({ name }) => name)).toEqual([
    "content_block_stop",
    "message_delta",
    "message_stop",
  ]);
  expect(events.at(-2)?.data).toMatchObject({ delta: { stop_reason: "end_turn" } });
}

/** The text so far, then the error for a failed provider. */
export function expectBroken(form: Form, reply: FaultReply, before: Before): void {
  if (form === "responses stream") {
    const [text, eventCount] = before.responses ?? ["", 0];
    expect(reply.text).toBe(text + errorEvent(eventCount));
    return;
  }
  if (form === "messages stream") {
    expect(reply.text).toBe((before.messages ?? "") + messagesErrorEvent(reply));
    return;
  }
  const texts = before.chat ?? [];
  if (isMessagesForm(form)) {
    expect(messageTexts(reply)).toEqual(texts.filter((text) => text !== ""));
    expect(reply.text).toEndWith(`\n\n${messagesErrorEvent(reply)}`);
    expect(reply.text).not.toContain("message_stop");
    return;
  }
  expect(textsOf(reply)).toEqual([...texts]);
  expect(chunksOf(reply).at(-1)).toEqual({
    id: reply.id.replace("req_", "chatcmpl-"),
    object: "chat.completion.chunk",
    created: expect.any(Number),
    model: reply.model,
    choices: [{ index: 0, delta: {}, logprobs: false, finish_reason: "error" }],
    error: { message: "upstream provider failure", type: "provider_error" },
  });
  expect(reply.text.match(/"finish_reason":"/g)).toHaveLength(1);
}

/** The texts of a stream of messages. */
function messageTexts({ text }: FaultReply): string[] {
  return messageEvents(text).flatMap(({ data }) => {
    const { text } = (data["delta"] ?? {}) as { text?: string };
    return text === undefined ? [] : [text];
  });
}

/** The texts of a chat stream, without chunks that have none. */
function textsOf(reply: Pick<FaultReply, "text">): string[] {
  return choicesOf(reply).flatMap(({ delta: { content } }) => content ?? []);
}

/** The last finish reason of a chat stream. */
export function reasonOf(reply: Pick<FaultReply, "text">): string | null | undefined {
  return choicesOf(reply).at(-1)?.finish_reason;
}

function choicesOf(reply: Pick<FaultReply, "text">) {
  const chunks = chunksOf(reply) as {
    choices: { delta: { content?: string }; finish_reason: string | null }[];
  }[];
  return chunks.flatMap(({ choices }) => choices);
}

/** The error event of a responses stream whose provider failed after this number of events. */
export function errorEvent(eventCount: number): string {
  return responseEvent("error", {
    code: "provider_error",
    message: "upstream provider failure",
    param: null,
    sequence_number: eventCount,
    error: {
      type: "provider_error",
      code: "provider_error",
      message: "upstream provider failure",
      param: null,
    },
  });
}

/** The error event of a stream of messages whose provider failed. */
export function messagesErrorEvent({ id }: Pick<FaultReply, "id">): string {
  const error = { type: "api_error", message: "upstream provider failure" };
  return `event: error\ndata: ${JSON.stringify({ type: "error", error, request_id: id })}\n\n`;
}

/** The recorded end of a request. If nothing is charged, the cost is 0 too. */
export function expectEnd(
  record: FaultRecord,
  end: { status: string; charge: bigint; provider?: string; estimated?: boolean },
): void {
  expect(record).toMatchObject({ ...end, writeOff: 0n });
  if (end.status === "failed")
    expect(record).toMatchObject({ promptTokens: 0, completionTokens: 0 });
}

/** All headers are the gateway's own: no provider's header reaches a client. */
function expectOwnHeaders({ headers }: Pick<FaultReply, "headers">): void {
  expect(foreignHeaders(headers)).toEqual([]);
  expect(headers.get("cache-control")).toBe("no-store");
}

function expectCost({ headers }: FaultReply, charge: bigint): void {
  expect(nanoOf(headers.get("x-tollgate-cost-rub") ?? "")).toBe(charge);
}

function tried({ providers }: FaultReply, outcome: string): object {
  const status = /^status (\d+)$/.exec(outcome)?.[1];
  return {
    provider: providers[0],
    outcome,
    ...(status === undefined ? {} : { status: Number(status) }),
  };
}

function inForm(outcome: Outcome, form: Form): string {
  return typeof outcome === "string" ? outcome : (outcome[form] ?? "no outcome in this form");
}

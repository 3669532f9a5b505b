import { expect } from "bun:test";
import type { Auditor } from "../auditor/auditor.ts";
import type { SeenAnswer } from "../auditor/logs.ts";
import type { TestKey } from "./testApp.ts";
import { until } from "../until.ts";

/** The least chat request, with what a test adds to it. */
export function ask(changes: object = {}): Record<string, unknown> {
  return { model: "small", messages: [{ role: "user", content: "hello" }], ...changes };
}

/** A whole answer; `body` is its text as JSON, or undefined where it is none. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: unknown;
  /** The `x-request-id`. */
  readonly id: string;
}

/** A gateway. Its auditor records the answers to chat and responses requests. */
interface Called {
  readonly url: string;
  readonly auditor?: Pick<Auditor, "seen">;
}

interface Given {
  readonly body?: unknown;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const chatPath = "/v1/chat/completions";

/** Calls the gateway; a body that is no string is sent as JSON. */
export async function call(
  gateway: Called,
  key: Pick<TestKey, "key"> | undefined,
  given: Given = {},
): Promise<Reply> {
  const reply = await replyOf(await open(gateway, key, given));
  if (isAudited(given)) gateway.auditor?.seen.push(seenOf(reply));
  return reply;
}

/** Posts a chat request and reads the whole answer, JSON or stream. */
export function chat(
  gateway: Called,
  key: Pick<TestKey, "key"> | undefined,
  changes: object = {},
): Promise<Reply> {
  return call(gateway, key, { body: ask(changes) });
}

/** The status, type and message of the error that a client must receive. */
export type ExpectedError = readonly [status: number, type: string, message: string];

export const badKey: ExpectedError = [401, "auth_error", "invalid api key"];
export const unknownModel: ExpectedError = [404, "invalid_request_error", "model not found"];
export const tooOften: ExpectedError = [429, "rate_limit_error", "rate limit exceeded"];
export const noProvider: ExpectedError = [502, "provider_error", "all providers unavailable"];

/** The database cannot be written for now. The answer says when to try again. */
export const unwritable: ExpectedError = [502, "provider_error", "service temporarily unavailable"];

/** Expects exactly this error, with no fields but `extra`. */
export function expectRefusal(reply: Reply, refusal: ExpectedError, extra: object = {}): void {
  const [status, type, message] = refusal;
  expect([reply.status, reply.body]).toEqual([status, { error: { message, type, ...extra } }]);
  expect(reply.id).toMatch(/^req_[0-9a-z]{20}$/);
  expect(Object.fromEntries(reply.headers)).toMatchObject({
    "content-type": "application/json",
    "cache-control": "no-store",
    vary: "authorization, x-api-key",
  });
  expect(reply.headers.has("x-tollgate-cost-rub")).toBe(false);
  // A gateway that stops says so to each client that it refuses.
  const isStopping = status === 502 && reply.headers.get("connection") === "close";
  expect(reply.headers.has("retry-after")).toBe(
    status === 429 || isStopping || refusal === unwritable,
  );
}

/** The chunks of a complete chat stream. Throws if the text is not a sequence of events with one data line each. */
export function chunksOf({ text }: Pick<Reply, "text">): Record<string, unknown>[] {
  const blocks = text.split("\n\n");
  if (blocks.pop() !== "") throw new Error(`the stream ends within an event: ${text}`);
  const last = blocks.pop();
  if (last !== "data: [DONE]") throw new Error(`the stream does not end with [DONE]: ${text}`);
  const events = blocks.map((block) => {
    if (!/^data: \{[^\r\n]*\}$/.test(block)) throw new Error(`not an event: ${block}`);
    return JSON.parse(block.slice("data: ".length)) as Record<string, unknown>;
  });
  const error = events.at(-2)?.["error"];
  // A failure is told by a chunk, and by its error alone.
  if (error !== undefined && !Bun.deepEquals(events.pop(), { error }))
    throw new Error(`the stream does not end with the error alone: ${text}`);
  return events;
}

/** An answer that is read as it comes. */
export interface OpenReply {
  readonly status: number;
  readonly headers: Headers;
  readonly id: string;
  /** The text received so far. */
  readonly text: string;
  readonly isOver: boolean;
  /** Resolves when the text holds this. */
  seen(part: string): Promise<void>;
  disconnect(): void;
}

export function openChat(
  gateway: Called,
  key: Pick<TestKey, "key">,
  changes: object = {},
): Promise<OpenReply> {
  return openCall(gateway, key, { body: ask(changes) });
}

/** As `call`, but the answer is read as it comes. */
export async function openCall(
  gateway: Called,
  key: Pick<TestKey, "key">,
  given: Given,
): Promise<OpenReply> {
  const client = new AbortController();
  const response = await open(gateway, key, given, client.signal);
  let text = "";
  let isOver = false;
  let isWhole = false;
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true });
    isWhole = true;
  };
  read().then(
    () => (isOver = true),
    () => (isOver = true),
  );
  const reply: OpenReply = {
    status: response.status,
    headers: response.headers,
    id: response.headers.get("x-request-id") ?? "",
    get text() {
      return text;
    },
    get isOver() {
      return isOver;
    },
    seen: (part) => until(`the client sees ${part}`, () => text.includes(part)),
    disconnect: () => client.abort(),
  };
  if (isAudited(given)) gateway.auditor?.seen.push(seenOf(reply, () => isWhole));
  return reply;
}

/** What the auditor must know of an answer; `isOver`: whether it was read to its proper end. */
export function seenOf(
  reply: Pick<Reply, "id" | "status" | "text" | "headers">,
  isOver = (): boolean => true,
): SeenAnswer {
  return {
    id: reply.id,
    status: reply.status,
    get text() {
      return reply.text;
    },
    get isOver() {
      return isOver();
    },
    costRub: reply.headers.get("x-tollgate-cost-rub"),
  };
}

function isAudited({ body, path = chatPath, method = "POST" }: Given): boolean {
  return (
    body !== undefined &&
    method === "POST" &&
    [chatPath, "/v1/responses", "/v1/messages", "/v1/embeddings"].includes(path)
  );
}

function open(
  { url }: Called,
  key: Pick<TestKey, "key"> | undefined,
  given: Given,
  signal?: AbortSignal,
): Promise<Response> {
  const { body, path = chatPath, method = body === undefined ? "GET" : "POST" } = given;
  return fetch(url + path, {
    method,
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(key === undefined ? {} : { authorization: `Bearer ${key.key}` }),
      ...given.headers,
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
    redirect: "manual",
  });
}

async function replyOf(response: Response): Promise<Reply> {
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: jsonOf(text),
    id: response.headers.get("x-request-id") ?? "",
  };
}

/** Undefined for what is no JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

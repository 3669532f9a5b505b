import { describe, expect, test } from "bun:test";
import type { Receipt } from "../../../src/contract/account/receipt.ts";
import type * as calls from "../../../src/web/api.ts";
import type * as chat from "../../../src/web/page/tryIt/conversation.ts";
import { importWeb } from "../../support/web/importWeb.ts";
import { until } from "../../support/until.ts";

const { ApiFailure } = await importWeb<typeof calls>("api.ts");
const { createConversation } = await importWeb<typeof chat>("page/tryIt/conversation.ts");

/** What the gateway does: the chunks of each answer in order, and what it answers about a receipt. */
interface Script {
  readonly chunks?: readonly unknown[];
  /** Refuses the request. */
  readonly refusal?: Error;
  /** The stream stays open after its chunks until it is aborted. */
  readonly isEndless?: boolean;
  readonly receipts?: readonly (Error | { status: string; cost_rub?: string })[];
}

function play({ chunks = [], refusal, isEndless = false, receipts = [] }: Script) {
  const bodies: { messages: unknown }[] = [];
  const left = [...receipts];
  const waits: number[] = [];
  let charged = 0;
  let gets = 0;
  const api = {
    get: () => {
      gets += 1;
      const next = left.shift() ?? new ApiFailure(404, "request not found");
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
    post: () => Promise.reject(new Error("not used")),
    async *events(
      _path: string,
      body: unknown,
      signal?: AbortSignal,
      onHead?: (h: Headers) => void,
    ) {
      bodies.push(body as { messages: unknown });
      if (refusal) throw refusal;
      onHead?.(new Headers({ "x-request-id": "req_1" }));
      for (const chunk of chunks) yield event(chunk);
      if (!isEndless) return;
      await new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error));
      });
    },
  } as unknown as calls.Api;
  const conversation = createConversation(
    api,
    () => (charged += 1),
    (ms) => {
      waits.push(ms);
      return Promise.resolve();
    },
  );
  return { conversation, bodies, waits, charged: () => charged, calls: () => gets };
}

function event(chunk: unknown): calls.ApiEvent {
  const data = chunk === "[DONE]" ? chunk : JSON.stringify(chunk);
  return { event: "message", data, json: () => (chunk === "[DONE]" ? undefined : chunk) };
}

const says = (content: string) => ({ choices: [{ delta: { content } }] });
/** What a test says of a receipt is all that a conversation reads. */
const receiptOf = (receipt: object) => receipt as unknown as Receipt;
const settled = { status: "done", cost_rub: "0.0165" };

describe("a conversation", () => {
  test("grows with each chunk and shows what the receipt says", async () => {
    const { conversation, charged } = play({
      chunks: [
        { choices: [{ delta: { reasoning_content: "hm" } }] },
        says("Hel"),
        says("lo"),
        { choices: [{ delta: {}, finish_reason: "stop" }] },
        "[DONE]",
      ],
      receipts: [settled],
    });
    conversation.ask("some-model", "Hi");
    expect(conversation.isBusy.value).toBe(true);
    const [exchange] = conversation.exchanges.value;
    await until("a charge", () => exchange?.charge.value !== "pending");
    expect(exchange?.answer.value).toBe("Hello");
    expect(exchange?.reasoning.value).toBe("hm");
    expect(exchange?.state.value).toBe("done");
    expect(exchange?.requestId.value).toBe("req_1");
    expect(exchange?.charge.value).toMatchObject({ cost_rub: "0.0165" });
    expect(charged()).toBe(1);
    expect(conversation.isBusy.value).toBe(false);
  });

  test("sends what was said before, without questions that got no answer", async () => {
    const { conversation, bodies } = play({
      chunks: [says("Yes"), "[DONE]"],
      receipts: [settled, settled],
    });
    for (const question of ["One?", "Two?"]) {
      conversation.ask("some-model", question);
      await until(
        "a charge",
        () => conversation.exchanges.value.at(-1)?.charge.value !== "pending",
      );
    }
    expect(bodies[1]?.messages).toEqual([
      { role: "user", content: "One?" },
      { role: "assistant", content: "Yes" },
      { role: "user", content: "Two?" },
    ]);
  });

  test("stops, and waits until the charge is known", async () => {
    const { conversation, waits } = play({
      chunks: [says("A long")],
      isEndless: true,
      receipts: [
        new ApiFailure(404, "request not found"),
        { status: "running" },
        new ApiFailure(429, "rate limit exceeded", { retryAfter: 7 }),
        { status: "cancelled", cost_rub: "0.002" },
      ],
    });
    conversation.ask("some-model", "Hi");
    const [exchange] = conversation.exchanges.value;
    await until("the first content", () => exchange?.answer.value === "A long");
    conversation.stop();
    await until("a charge", () => exchange?.charge.value !== "pending");
    expect(exchange?.state.value).toBe("stopped");
    expect(exchange?.answer.value).toBe("A long");
    expect(exchange?.charge.value).toMatchObject({ status: "cancelled", cost_rub: "0.002" });
    expect(waits).toContain(7000);
  });

  test("says that the charge is not known if no receipt comes", async () => {
    const { conversation, charged } = play({ chunks: [says("A"), "[DONE]"] });
    conversation.ask("some-model", "Hi");
    const [exchange] = conversation.exchanges.value;
    await until("a charge", () => exchange?.charge.value !== "pending");
    expect(exchange?.charge.value).toBe("unknown");
    expect(charged()).toBe(0);
  });

  test("asks for nothing after its end", async () => {
    const { conversation, waits, calls } = play({ chunks: [says("A long")], isEndless: true });
    conversation.ask("some-model", "Hi");
    const [exchange] = conversation.exchanges.value;
    await until("the first content", () => exchange?.answer.value === "A long");
    conversation.dispose();
    await until("its end", () => exchange?.charge.value === "unknown");
    expect(calls()).toBe(0);
    expect(waits).toEqual([0]);
  });

  const failures: readonly (readonly [string, Script, { message: string; charge: chat.Charge }])[] =
    [
      [
        "a refusal, which costs nothing",
        {
          refusal: new ApiFailure(402, "insufficient balance", {
            fields: { required_rub: "5", available_rub: "1" },
          }),
        },
        { message: "insufficient balance", charge: "none" },
      ],
      [
        "an error in the stream",
        {
          chunks: [says("A"), { choices: [], error: { message: "upstream provider failure" } }],
          receipts: [{ status: "failed", cost_rub: "0" }],
        },
        {
          message: "upstream provider failure",
          charge: receiptOf({ status: "failed", cost_rub: "0" }),
        },
      ],
      [
        "a stream that breaks off",
        { chunks: [says("A")], receipts: [settled] },
        {
          message: "No connection to the gateway.",
          charge: receiptOf(settled),
        },
      ],
    ];
  for (const [what, script, { message, charge }] of failures) {
    test(`shows ${what}`, async () => {
      const { conversation } = play(script);
      conversation.ask("some-model", "Hi");
      const [exchange] = conversation.exchanges.value;
      await until("a charge", () => exchange?.charge.value !== "pending");
      expect(exchange?.state.value).toBe("failed");
      expect(exchange?.failure.value?.message).toBe(message);
      expect(exchange?.charge.value).toEqual(charge);
    });
  }

  test("goes on after an answer that ended within a character", async () => {
    const { conversation, bodies } = play({ chunks: [says("Hi \ud83d")], receipts: [settled] });
    conversation.ask("some-model", "One");
    await until("an end", () => !conversation.isBusy.value);
    conversation.ask("some-model", "Two");
    expect(bodies[1]?.messages).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Hi \ufffd" },
      { role: "user", content: "Two" },
    ]);
  });
});

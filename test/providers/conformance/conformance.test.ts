import { describe, expect, test } from "bun:test";
import { AnswerError, UnsupportedRequestError } from "../../../src/providers/provider.ts";
import { anthropicDialect } from "./anthropicDialect.ts";
import { answers, impossibleUsages } from "./answers.ts";
import { expectedOf, withoutBlanks } from "./asked.ts";
import type { Dialect } from "./dialect.ts";
import { geminiDialect } from "./geminiDialect.ts";
import { hostileRequests } from "./hostileRequests.ts";
import { openaiDialect } from "./openaiDialect.ts";
import { openaiResponsesDialect } from "./openaiResponsesDialect.ts";
import {
  billedOf,
  callOf,
  receivedIn,
  receivedAnswerOf,
  outputTokensMax,
  providersModel,
  readStream,
  readWhole,
} from "./reading.ts";
import { requests } from "./requests.ts";
import { sentText } from "../../support/provider/sentText.ts";
import { cpuTimer } from "../../support/measurement.ts";

/** Every way to a provider keeps the same promises, whatever its interface looks like. */
const dialects: readonly Dialect[] = [
  openaiDialect,
  openaiResponsesDialect,
  anthropicDialect,
  geminiDialect,
];

describe.each(dialects)("$name", (dialect) => {
  describe("keeps", () => {
    for (const [name, answer] of Object.entries(answers)) {
      if (name in dialect.cannot) continue;
      test(`${name}, in JSON`, () => {
        const { received, usage } = readWhole(dialect, dialect.json(answer));
        expect(received).toMatchObject(receivedAnswerOf(answer));
        expect(usage).toEqual(billedOf(dialect, answer.usage));
        if (answer.usage?.reasoning) expect(received.reasoningTokens).toBe(answer.usage.reasoning);
      });

      test(`${name}, as a stream`, () => {
        const { bytes, decoder } = readStream(dialect, Buffer.from(dialect.stream(answer)));
        const received = receivedIn(bytes);
        expect(received).toMatchObject(receivedAnswerOf(answer));
        expect(decoder.usage).toEqual(billedOf(dialect, answer.usage));
        expect(decoder.isUsageFinal).toBe(answer.usage !== undefined);
        if (answer.usage?.reasoning) expect(received.reasoningTokens).toBe(answer.usage.reasoning);
      });
    }
  });

  test.each(Object.entries(impossibleUsages))("takes %s for no figure at all", (_, usage) => {
    const answer = { text: "Hello", finish: "stop", usage } as const;
    expect(dialect.chat.read(dialect.json(answer)).usage).toBeUndefined();
    const { decoder } = readStream(dialect, Buffer.from(dialect.stream(answer)));
    expect(decoder.isUsageFinal ? decoder.usage : undefined).toBeUndefined();
  });

  describe("refuses as an answer", () => {
    const nonsense = ["<html>", "", "null", "[]", '"x"', "1", '{"error":{"message":"overloaded"}}'];
    test.each(nonsense)("%s, in JSON", (text) => {
      expect(() => dialect.chat.read(text)).toThrow(AnswerError);
    });

    test.each(nonsense.filter((text) => text !== ""))("%s, as an event", (text) => {
      const read = dialect.chat.events();
      expect(() => read({ event: undefined, data: text })).toThrow(AnswerError);
    });

    for (const { name, json, stream } of dialect.failures) {
      if (json !== undefined) {
        test(`${name}, in JSON`, () => {
          expect(() => readWhole(dialect, json)).toThrow(AnswerError);
        });
      }
      if (stream !== undefined) {
        test(`${name}, as a stream`, () => {
          expect(() => readStream(dialect, Buffer.from(stream))).toThrow(AnswerError);
        });
      }
    }
  });

  describe("encodes", () => {
    for (const [name, { body, asks }] of Object.entries(requests)) {
      const refused = dialect.cannot[name];
      test(refused === undefined ? name : `${name}: not at all`, () => {
        const call = callOf(JSON.stringify(body));
        const before = structuredClone(call.request.body);
        if (refused === undefined) {
          expect(withoutBlanks(dialect.asked(dialect.chat.encode(call)))).toEqual(
            expectedOf(dialect, asks, { model: providersModel, outputTokensMax }),
          );
        } else {
          expect(() => dialect.chat.encode(call)).toThrow(new UnsupportedRequestError(refused));
        }
        expect(call.request.body).toEqual(before);
      });
    }

    test("fields that only the provider knows, digit for digit", () => {
      const own = { top_k: 7, nested: { __big: "BIG" } };
      const text = JSON.stringify({ messages: [{ role: "user", content: "hello" }], ...own });
      const call = callOf(text.replace('"BIG"', "12345678901234567890"));
      const body = sentText(dialect.chat.encode(call));
      expect(JSON.parse(body)).toMatchObject({ top_k: 7 });
      expect(body).toContain('"nested":{"__big":12345678901234567890}');
    });
  });

  test.each(Object.entries(hostileRequests))("stumbles over no request: %s", (_, text) => {
    const spentMs = cpuTimer();
    try {
      const body = sentText(dialect.chat.encode(callOf(text)));
      expect(() => JSON.parse(body) as unknown).not.toThrow();
    } catch (error) {
      expect(error).toBeInstanceOf(UnsupportedRequestError);
      expect((error as UnsupportedRequestError).message.length).toBeLessThan(200);
    }
    // To write what is nested so deep takes most of a second, in which nobody else is served.
    expect(spentMs()).toBeLessThan(500);
  });
});

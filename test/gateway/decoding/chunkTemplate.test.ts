import { expect, test } from "bun:test";
import { upstreamFailure } from "../../../src/contract/errors.ts";
import {
  assert,
  array,
  constant,
  constantFrom,
  nat,
  oneof,
  property,
  string,
  tuple,
} from "fast-check";
import { noUsage } from "../../../src/contract/usage.ts";
import { ChatDecoder } from "../../../src/gateway/decoding/chatDecoder.ts";
import { ChatForm } from "../../../src/gateway/decoding/chatForm.ts";
import { spanOf } from "../../../src/lib/span.ts";
import { openai } from "../../../src/providers/openai/openai.ts";
import type { ReadChatEvent } from "../../../src/providers/provider.ts";

const identity = { id: "chatcmpl-ours", model: "small", created: 1 };

interface Manner {
  unknownFields: "forward" | "reject";
  eventsStandAlone: boolean;
  readEvent?: ReadChatEvent;
}

function decoderOf({ unknownFields, eventsStandAlone, readEvent }: Manner): ChatDecoder {
  return new ChatDecoder({
    readEvent: readEvent ?? openai.chat.events(),
    identity: { ...identity, unknownFields },
    choiceCount: 1,
    form: new ChatForm({ ...identity, unknownFields }, true),
    eventsStandAlone,
  });
}

/** All that a decoder shows of a stream, read by read; an error by its name. */
function seen(decoder: ChatDecoder, reads: readonly Uint8Array[]): unknown[] {
  const steps: unknown[] = [];
  for (const bytes of reads) {
    try {
      // As the relay does it: what passes is not pushed.
      const passed =
        decoder.hasContent && !decoder.isFinished ? decoder.pass(spanOf(bytes)) : undefined;
      if (passed === undefined) decoder.push(bytes);
      const shown = passed ?? decoder.take();
      const { hasContent, isFinished, isClosed, usage, isUsageFinal } = decoder;
      const { textBytes, textDeltas, usageText } = decoder;
      const text = { textBytes, textDeltas, usageText };
      steps.push({ shown, text, hasContent, isFinished, isClosed, usage, isUsageFinal });
    } catch (error) {
      return [...steps, (error as Error).name];
    }
  }
  return [...steps, decoder.ending(noUsage), decoder.failure(upstreamFailure)];
}

const text = oneof(
  constantFrom(
    "chat.completion.chunk",
    "m",
    "assistant",
    "content",
    "~ placeholder of the text ~",
    "",
  ),
  string({ unit: "grapheme", maxLength: 8 }),
  string({ unit: "binary", maxLength: 4 }),
);
const chunk = (choices: string, rest = "") =>
  `{"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":${choices}${rest}}`;
const said = (delta: string, finish = "null") =>
  chunk(`[{"index":0,"delta":${delta},"finish_reason":${finish}}]`);
const plain = text.map((one) => said(`{"content":${JSON.stringify(one)}}`));

/** Every way in which an event may look like the one before it and still be another. */
const data = oneof(
  { arbitrary: plain, weight: 8 },
  text.map((one) => said(`{"content":"${one}"}`)),
  text.map((one) => said(`{"content":${JSON.stringify(one)}}`, '""')),
  text.map((one) => said(`{"role":"assistant","content":${JSON.stringify(one)}}`)),
  text.map((one) => said(`{"content":"a","content":${JSON.stringify(one)}}`)),
  text.map((one) => said(`{"reasoning":${JSON.stringify(one)},"content":"b"}`)),
  text.map((one) => said(`{"content":${JSON.stringify(one)}}`).replace('"m"', JSON.stringify(one))),
  tuple(text, text)
    .map((two) => two.map((one) => JSON.stringify(one)))
    .map(([one = "", other = ""]) => said(`{"content":${one}}`).replace(/}$/, `,"tier":${other}}`)),
  text.map((one) => chunk(`[{"delta":{"content":${JSON.stringify(one)}}},{"delta":{}}]`)),
  text.map((one) => said(`{"content":${JSON.stringify(one)}}`, '"stop"')),
  constant(chunk("[]", ',"usage":{"prompt_tokens":3,"completion_tokens":2}')),
  constant(said('{"content":"\\u0041\\n"}')),
  constant("[DONE]"),
);
const event = tuple(
  data,
  constantFrom("data: ", "data:", ": data: {}\ndata: ", "event: x\ndata: "),
).map(([one, head]) => Buffer.from(`${head}${one}\n\n`));
const broken = tuple(event, nat(25)).map(([bytes, fromEnd]) => {
  const changed = Buffer.from(bytes);
  changed[Math.max(0, changed.length - 28 - fromEnd)] = 0xff;
  return changed;
});
const reads = array(
  oneof(
    { arbitrary: event, weight: 9 },
    broken,
    tuple(event, event).map((two) => Buffer.concat(two)),
    event.map((bytes) => bytes.subarray(0, bytes.length - 3)),
    constant(Buffer.from("\n")),
  ),
  { maxLength: 30 },
);

test("a stream is the same for the client, and for its charge, whether its events are all read or not", () => {
  assert(
    property(reads, constantFrom("forward" as const, "reject" as const), (all, fields) => {
      const manner = { unknownFields: fields };
      const filled = seen(decoderOf({ ...manner, eventsStandAlone: true }), all);
      expect(filled).toEqual(seen(decoderOf({ ...manner, eventsStandAlone: false }), all));
    }),
    { numRuns: 2000 },
  );
});

const eventOf = (content: string, obfuscation = ""): Buffer =>
  Buffer.from(`data: ${said(`{"content":${JSON.stringify(content)}}`)}${obfuscation}\n\n`);

function readsOf(events: readonly Buffer[]): number {
  let read = 0;
  const readEvent: ReadChatEvent = (one) => {
    read += 1;
    return openai.chat.events()(one);
  };
  seen(decoderOf({ unknownFields: "forward", eventsStandAlone: true, readEvent }), events);
  return read;
}

test("of a stream that says the same around each text, a handful of events is read", () => {
  const events = Array.from({ length: 100 }, (_, at) => eventOf(`слово ${at}`));
  expect(readsOf(events)).toBeLessThan(5);
});

test("where each event is another, no time is spent on likenesses", () => {
  const events = Array.from({ length: 100 }, (_, at) => eventOf("word", " ".repeat(at)));
  expect(readsOf(events)).toBeLessThan(110);
});

test("a field that happens to say the same as the text is not taken for it", () => {
  const events = ["word", "another", "a third one"].map((tier) =>
    Buffer.from(`data: ${said('{"content":"word"}').replace(/}$/, `,"tier":"${tier}"}`)}\n\n`),
  );
  const decoder = decoderOf({ unknownFields: "forward", eventsStandAlone: true });
  seen(decoder, events);
  expect(decoder.textBytes).toBe(3 * "word".length);
});

test("a field may say what the gateway tries out", () => {
  const tier = "~ placeholder of the text ~";
  const events = ["one", "two", "three"].map((word) =>
    Buffer.from(`data: ${said(`{"content":"${word}"}`).replace(/}$/, `,"tier":"${tier}"}`)}\n\n`),
  );
  const manner = { unknownFields: "forward" } as const;
  const filled = seen(decoderOf({ ...manner, eventsStandAlone: true }), events);
  expect(filled).toEqual(seen(decoderOf({ ...manner, eventsStandAlone: false }), events));
});

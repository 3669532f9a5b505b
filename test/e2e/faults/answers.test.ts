import { expect } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import {
  choice,
  completion,
  doneEvent,
  helloEvent,
  roleEvent,
  usage,
  usageEvent,
} from "../../support/provider/chatAnswers.ts";
import {
  byForm,
  chatStreamForms,
  everyForm,
  jsonForms,
  streamForms,
  streams,
  typeOf,
  usualBody,
  type FaultyAnswer,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { message, startEvent } from "../../support/provider/anthropicAnswers.ts";
import { vectors } from "../../support/provider/embeddingsAnswers.ts";
import { openFaultSetup } from "../../support/faults/faultSetup.ts";
import {
  expectSaid,
  testFailover,
  testServed,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { created } from "../../support/provider/responsesAnswers.ts";
import { cut, json, raw, stream, text } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/** Rows 37 to 47, 71 and 73: a 200 that is not, or not quite, what the interface promises. */
const setup = openFaultSetup();

/** What `change` makes of the usual answer's head and body. */
function wrapped(change: (body: string, type: string) => FaultyAnswer): FaultyAnswer {
  return byForm((form) => change(usualBody[form], `content-type: ${typeOf(form)}\r\n`));
}

/** Half of the usual body, then the end, by FIN or by RST. */
function cutInHalf(how: "fin" | "reset", framing: (length: number) => string): FaultyAnswer {
  return wrapped((body, type) =>
    cut(
      how,
      `HTTP/1.1 200 OK\r\n${type}${framing(body.length)}\r\n`,
      body.slice(0, body.length / 2),
    ),
  );
}

/** The usual answer, compressed without a request for it. */
function compressed(encoding: string, compress: (bytes: Buffer) => Uint8Array): FaultyAnswer {
  return byForm((form) =>
    text(compress(Buffer.from(usualBody[form])), {
      type: typeOf(form),
      headers: { "content-encoding": encoding },
    }),
  );
}

/** The outcome of what a JSON request finds in the body, and a stream in the head. */
function inBodyOrHead(body: string, head: string): Record<Form, string> {
  const inForm = (form: Form) => [form, form.endsWith("stream") ? head : body];
  return Object.fromEntries(everyForm.map(inForm)) as Record<Form, string>;
}

/** A stream of responses ends with an event of its own, and lacks that first. */
const nothingInIt = {
  ...inBodyOrHead("invalid answer", "empty answer"),
  "responses stream": "incomplete answer",
};
const failed = { error: { message: "overloaded", type: "overloaded_error" } };
const errorEvent = `event: error\ndata: ${JSON.stringify({ type: "error", ...failed })}\n\n`;
const html = "<html>hello</html>";

testFailover(setup, [
  {
    row: 37,
    name: "200 to a stream request with a JSON error",
    forms: streamForms,
    answer: json(failed),
    outcome: "reported failure",
  },
  {
    row: 37,
    name: "200 to a stream request with JSON that is no error",
    forms: streamForms,
    answer: json(completion()),
    outcome: "content type",
  },
  {
    row: 38,
    name: "200 whose first event is an error",
    forms: streamForms,
    answer: stream(errorEvent),
    outcome: "reported failure",
  },
  {
    row: 38,
    name: "200 whose first event is an error without a name",
    forms: [...chatStreamForms, "messages stream"],
    answer: stream(`data: ${JSON.stringify(failed)}\n\n`),
    outcome: "reported failure",
  },
  {
    row: 38,
    name: "200 of a provider of kind anthropic whose first event is an error",
    forms: ["chat stream"],
    answer: stream(errorEvent),
    settings: { kind: "anthropic", api_key: "sk-ant-of-the-operator" },
    outcome: "reported failure",
  },
  {
    row: 38,
    name: "200 with an error after the opening event",
    forms: streamForms,
    answer: streams({
      chat: [roleEvent, errorEvent],
      responses: [created(), errorEvent],
      messages: [startEvent, errorEvent],
    }),
    outcome: "reported failure",
  },
  {
    row: 39,
    name: "200 with events for a request without stream",
    forms: jsonForms,
    answer: byForm((form) =>
      stream(usualBody[form === "embeddings" ? "chat stream" : (`${form} stream` as Form)]),
    ),
    outcome: "content type",
  },
  {
    row: 40,
    name: "200 with HTML",
    forms: everyForm,
    answer: text(html, { type: "text/html" }),
    outcome: inBodyOrHead("invalid answer", "content type"),
  },
  {
    row: 40,
    name: "200 with HTML under the right media type",
    forms: everyForm,
    answer: byForm((form) => text(html, { type: typeOf(form) })),
    outcome: nothingInIt,
  },
  {
    row: 41,
    name: "200 with a truncated answer, Content-Length too long",
    forms: jsonForms,
    answer: cutInHalf("fin", (length) => `content-length: ${length}\r\n`),
    outcome: "closed",
  },
  {
    row: 42,
    name: "200 with a truncated answer, correct framing",
    forms: jsonForms,
    answer: byForm((form) => text(usualBody[form].slice(0, -2))),
    outcome: "invalid answer",
  },
  {
    row: 43,
    name: "200 with a close-delimited body cut by FIN",
    forms: jsonForms,
    answer: cutInHalf("fin", () => ""),
    outcome: "invalid answer",
  },
  {
    row: 43,
    name: "200 with a close-delimited body cut by RST",
    forms: jsonForms,
    answer: cutInHalf("reset", () => ""),
    outcome: "closed",
  },
  {
    row: 44,
    name: "200 with an empty body",
    forms: everyForm,
    answer: byForm((form) => text("", { type: typeOf(form) })),
    outcome: nothingInIt,
  },
  ...["null", "[]", '"x"', "{}", "5", "true"].map((body) => ({
    row: 45,
    name: `200 with ${body}`,
    forms: jsonForms,
    answer: text(body),
    outcome: "invalid answer",
  })),
  ...["null", "[]", '"x"'].map((body) => ({
    row: 45,
    name: `200 with an event of ${body}`,
    forms: chatStreamForms,
    answer: stream(`data: ${body}\n\n`),
    outcome: "invalid answer",
  })),
  ...[null, "x", 5, {}].map((data) => ({
    row: 46,
    name: `200 with the vectors ${JSON.stringify(data)}`,
    forms: ["embeddings"] as const,
    answer: json(vectors({ data })),
    outcome: "invalid answer",
  })),
  {
    row: 46,
    name: "200 with an error beside vectors",
    forms: ["embeddings"],
    answer: json(vectors(failed)),
    outcome: "reported failure",
  },
  ...[[], null, "x", [{}], [{ index: 0, finish_reason: "stop" }], [null]].map((choices) => ({
    row: 46,
    name: `200 with the choices ${JSON.stringify(choices)}`,
    forms: ["chat", "translated messages"] as const,
    answer: json(completion({ choices })),
    outcome: "invalid answer",
  })),
  ...[null, "x", 5, {}].map((content) => ({
    row: 46,
    name: `200 with the blocks ${JSON.stringify(content)}`,
    forms: ["messages"] as const,
    answer: json(message({ content })),
    outcome: "invalid answer",
  })),
  {
    row: 46,
    name: "200 with an error beside the blocks",
    forms: ["messages"],
    answer: json(message(failed)),
    outcome: "reported failure",
  },
  ...Object.entries({
    gzip: gzipSync,
    deflate: deflateSync,
    br: brotliCompressSync,
    zstd: zstdCompressSync,
  }).map(([encoding, compress]) => ({
    row: 71,
    name: `200 with ${encoding} though identity was asked for`,
    forms: everyForm,
    answer: compressed(encoding, (bytes) => compress(bytes)),
    outcome: "compressed",
  })),
  {
    row: 73,
    name: "200 with two lengths",
    forms: everyForm,
    answer: wrapped((body, type) =>
      raw(`HTTP/1.1 200 OK\r\n${type}content-length: 5\r\ncontent-length: 7\r\n\r\n${body}`),
    ),
    outcome: "protocol",
  },
  {
    row: 73,
    name: "200 with a length and chunks",
    forms: everyForm,
    answer: wrapped((body, type) =>
      raw(
        `HTTP/1.1 200 OK\r\n${type}content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      ),
    ),
    outcome: "protocol",
  },
]);

testServed(setup, [
  {
    row: 46,
    name: "content null becomes an empty text",
    forms: ["chat"],
    answer: json(completion({ choices: [choice({ content: null })] })),
    sees: ({ body }) => expect(body).toMatchObject({ choices: [choice({ content: "" })], usage }),
    charge: usualCharge,
  },
  ...["eos", "STOP", 7, {}, null, ""].map((reason) => ({
    row: 47,
    name: `the finish reason ${JSON.stringify(reason)} becomes stop`,
    forms: ["chat"] as const,
    answer: json(completion({ choices: [choice({}, { finish_reason: reason })] })),
    sees: ({ body }: { body: unknown }) => expect(body).toMatchObject({ choices: [choice()] }),
    charge: usualCharge,
  })),
  {
    row: 47,
    name: "an unknown finish reason becomes stop",
    forms: chatStreamForms,
    answer: stream(helloEvent, chatEvent({}, "enough"), usageEvent, doneEvent),
    sees: (reply) => expectSaid(reply, ["Hello"]),
    charge: usualCharge,
  },
]);

import { expect, test } from "bun:test";
import { seededRandom } from "../../support/seededRandom.ts";
import {
  doneEvent,
  helloEvent,
  stopEvent,
  thereEvent,
} from "../../support/provider/chatAnswers.ts";
import { messageEvents } from "../../support/gateway/messagesCalls.ts";
import { chunksOf } from "../../support/gateway/chatCalls.ts";
import {
  completionForms,
  interfaceOf,
  isMessagesForm,
  messagesForms,
  responsesForms,
  translatedForms,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import {
  embeddingPrice,
  openFaultSetup,
  type FaultReply,
} from "../../support/faults/faultSetup.ts";
import {
  chosenForms,
  reasonOf,
  testBrokenStream,
  testServed,
} from "../../support/faults/faultTests.ts";
import { bodyReporting, reporting, type Reported } from "../../support/provider/reportedUsage.ts";
import { cut, piece, stream, streamHead } from "../../support/provider/scriptedProvider.ts";
import { chatEvent } from "../../support/provider/upstreamText.ts";

/** Rows 78 to 90: what providers report of an answer's tokens, and what it costs. */
const setup = openFaultSetup();

/** Nano-roubles for one token, as the config of these tests has them. */
const price = { input: 25_000n, output: 200_000n, cachedInput: 2500n, cacheWrite: 30_000n };

interface Tokens {
  readonly prompt: number;
  readonly completion: number;
  readonly cached?: number;
  readonly cacheWrite?: number;
}

/** The formula of the contract, worked out here once more. */
function cost({ prompt, completion, cached = 0, cacheWrite = 0 }: Tokens): bigint {
  return (
    BigInt(prompt - cached - cacheWrite) * price.input +
    BigInt(cached) * price.cachedInput +
    BigInt(cacheWrite) * price.cacheWrite +
    BigInt(completion) * price.output
  );
}

/** "hello" was asked and "Hello there" answered: four bytes a token, rounded up. */
const estimate: Tokens = { prompt: 2, completion: 3 };

interface UsageRow {
  readonly row: number;
  readonly name: string;
  readonly reported: Reported;
  /** The tokens to be billed; undefined: the estimate. */
  readonly billed?: Tokens;
}

/** Those whose provider reports OpenAI's usage, and those with any usage of generated text. */
const openaiForms = [...completionForms, ...translatedForms];
const generatedForms = [...openaiForms, ...messagesForms];

function testUsage(rows: readonly UsageRow[], forms: readonly Form[] = generatedForms): void {
  testServed(
    setup,
    rows
      .flatMap((row) => chosenForms(forms).map((form) => [row, form] as const))
      .map(([one, form]) => ({
        row: one.row,
        name: `usage ${one.name}`,
        forms: [form],
        answer: reporting(one.reported),
        // In other interfaces it would be an unknown field, which the estimate counts.
        ask: form.startsWith("chat") ? { stream_options: { include_usage: true } } : {},
        sees: (reply: FaultReply) =>
          interfaceOf(form) === "chat"
            ? expectShown(form, reply, one.billed ?? estimate)
            : expect(reply.text).toBe(bodyReporting(form, one.reported)),
        charge: cost(one.billed ?? estimate),
        estimated: one.billed === undefined,
      })),
  );
}

/** The client of a chat and of translated messages sees the figures that are billed; a chat also has their sum. */
function expectShown(form: Form, reply: FaultReply, billed: Tokens): void {
  const { prompt, completion, cached = 0, cacheWrite = 0 } = billed;
  if (isMessagesForm(form)) {
    const shown = reply.body ?? messageEvents(reply.text).at(-2)?.data;
    expect(shown).toMatchObject({
      usage: {
        input_tokens: prompt - cached - cacheWrite,
        cache_creation_input_tokens: cacheWrite,
        cache_read_input_tokens: cached,
        output_tokens: completion,
      },
    });
    return;
  }
  expect(form === "chat" ? reply.body : chunksOf(reply).at(-1)).toMatchObject({
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
    },
  });
}

const plain = { prompt: "20", completion: "7" };

testUsage([
  { row: 78, name: "missing", reported: undefined },
  ...["null", "{}", "[]", '"20"', "20", "true", "[20,7]"].map((reported) => ({
    row: 80,
    name: reported,
    reported,
  })),
]);

// What no count of tokens can be, for either figure; not a number at all (NaN) is no JSON either.
const impossible = [
  "-1",
  "-0.5",
  "1.5",
  '"12"',
  "1e400",
  "-1e400",
  "9007199254740993",
  "null",
  "[]",
];
testUsage(
  impossible.flatMap((figure) => [
    { row: 81, name: `with a prompt of ${figure}`, reported: { ...plain, prompt: figure } },
    { row: 81, name: `with a completion of ${figure}`, reported: { ...plain, completion: figure } },
  ]),
);

const random = seededRandom(81);
/** A number that JSON can write and that is no count of tokens: negative, fractional, or above a thousand million. */
function oddNumber(): string {
  const digits = String(random.below(1e9));
  return random.pick([
    `-${digits}1`,
    `${digits}.${random.below(999)}1`,
    `${digits}e-${digits.length + 3}1`,
    `1${digits.padStart(9, "0")}1`,
    `1.${digits}1e${20 + random.below(300)}`,
  ]);
}
testUsage(
  Array.from({ length: 20 }, () => {
    const [figure, isPrompt] = [oddNumber(), random.chance(0.5)];
    return {
      row: 81,
      name: `with ${isPrompt ? "a prompt" : "a completion"} of ${figure} at random`,
      reported: { ...plain, [isPrompt ? "prompt" : "completion"]: figure },
    };
  }),
  ["chat", "responses", "messages"],
);

/** The tokens to be billed of an embeddings answer; undefined: the estimate of "hello". */
function testEmbeddingsUsage(
  rows: readonly { row: number; name: string; reported: Reported; billed?: number }[],
): void {
  testServed(
    setup,
    rows.map(({ row, name, reported, billed }) => ({
      row,
      name: `usage ${name}`,
      forms: ["embeddings"] as const,
      answer: reporting(reported),
      sees: (reply: FaultReply) => expect(reply.text).toBe(bodyReporting("embeddings", reported)),
      charge: BigInt((billed ?? estimate.prompt) * embeddingPrice),
      estimated: billed === undefined,
    })),
  );
}

testEmbeddingsUsage([
  { row: 78, name: "missing", reported: undefined },
  ...["null", "{}", "[]", '"20"', "20"].map((reported) => ({ row: 80, name: reported, reported })),
  ...impossible.map((figure) => ({
    row: 81,
    name: `with a prompt of ${figure}`,
    reported: { prompt: figure },
  })),
  { row: 82, name: "of 10^9", reported: { prompt: "1000000000" } },
  { row: 83, name: "of zero is believed", reported: { prompt: "0" }, billed: 0 },
  { row: 84, name: "with cached tokens", reported: { prompt: "20", cached: "5" }, billed: 20 },
  { row: 85, name: "whose total differs", reported: { prompt: "20", total: "999" }, billed: 20 },
  { row: 85, name: "of a total alone", reported: { total: "20" }, billed: 20 },
  { row: 88, name: "above the hold", reported: { prompt: "900" }, billed: 900 },
]);

testUsage([
  { row: 82, name: "of 10^9", reported: { ...plain, completion: "1000000000" } },
  { row: 82, name: "of 10^9 asked", reported: { ...plain, prompt: "1000000000" } },
  { row: 82, name: "of more than 10^9", reported: { ...plain, completion: "1000000001" } },
  {
    row: 83,
    name: "of zeros is believed",
    reported: { prompt: "0", completion: "0", total: "0" },
    billed: { prompt: 0, completion: 0 },
  },
  {
    row: 83,
    name: "of a negative zero is believed",
    reported: { prompt: "-0", completion: "-0.0" },
    billed: { prompt: 0, completion: 0 },
  },
  {
    row: 88,
    name: "above the caller's bound",
    reported: { ...plain, completion: "900" },
    billed: { prompt: 20, completion: 900 },
  },
  {
    row: 88,
    name: "of numbers with a point or an exponent that are whole",
    reported: { prompt: "20.0", completion: "7e0" },
    billed: { prompt: 20, completion: 7 },
  },
]);

const moreThanAsked: readonly UsageRow[] = [
  {
    row: 84,
    name: "with more cached than asked",
    reported: { ...plain, cached: "21" },
    billed: { prompt: 20, completion: 7, cached: 20 },
  },
  {
    row: 84,
    name: "with more written to the cache than asked",
    reported: { ...plain, cacheWrite: "21" },
    billed: { prompt: 20, completion: 7, cacheWrite: 20 },
  },
  {
    row: 84,
    name: "with more cached and written than asked",
    reported: { ...plain, cached: "15", cacheWrite: "15" },
    billed: { prompt: 20, completion: 7, cached: 15, cacheWrite: 5 },
  },
  {
    row: 84,
    name: "with impossible details",
    reported: { ...plain, cached: "-5", cacheWrite: '"3"' },
    billed: { prompt: 20, completion: 7 },
  },
  {
    row: 85,
    name: "whose total is not the sum",
    reported: { ...plain, total: "999", cached: "5", cacheWrite: "3" },
    billed: { prompt: 20, completion: 7, cached: 5, cacheWrite: 3 },
  },
];
testUsage(moreThanAsked, openaiForms);
// Anthropic's input tokens leave out those of the cache.
testUsage(
  [
    {
      row: 84,
      name: "with tokens of the cache alone",
      reported: { prompt: "0", completion: "7", cached: "15", cacheWrite: "5" },
      billed: { prompt: 20, completion: 7, cached: 15, cacheWrite: 5 },
    },
    ...["-5", '"3"', "1.5", "1000000000"].flatMap((figure) => [
      { row: 84, name: `with ${figure} cached`, reported: { ...plain, cached: figure } },
      { row: 84, name: `with ${figure} written`, reported: { ...plain, cacheWrite: figure } },
    ]),
  ],
  messagesForms,
);
testUsage(
  [
    {
      row: 90,
      name: "with the cached tokens beside the others",
      reported: '{"input_tokens":20,"output_tokens":7,"cached_tokens":5}',
      billed: { prompt: 20, completion: 7, cached: 5 },
    },
  ],
  responsesForms,
);

/** Three chunks, each of which reports so many tokens of the answer. */
function reportingOften([first, second, third]: readonly number[]) {
  const reported = (tokens = 0) => ({ usage: { prompt_tokens: 20, completion_tokens: tokens } });
  return stream(
    chatEvent({ content: "Hello" }, null, reported(first)),
    chatEvent({ content: " there" }, null, reported(second)),
    chatEvent({}, "stop", reported(third)),
    doneEvent,
  );
}

const cumulative = [
  { row: 86, name: "growing", reported: [1, 3, 7], completion: 7 },
  { row: 87, name: "decreasing", reported: [7, 5, 1], completion: 7 },
] as const;

testServed(setup, [
  ...cumulative.map(({ row, name, reported, completion }) => ({
    row,
    name: `usage in every chunk, ${name}`,
    forms: ["chat stream"] as const,
    answer: reportingOften(reported),
    ask: { stream_options: { include_usage: true } },
    sees: (reply: FaultReply, form: Form) => expectShown(form, reply, { prompt: 20, completion }),
    charge: cost({ prompt: 20, completion }),
  })),
  ...["x_groq", "response", "meta"].map((place) => ({
    row: 90,
    name: `usage only under ${place}`,
    forms: ["chat stream"] as const,
    answer: stream(
      helloEvent,
      thereEvent,
      chatEvent({}, "stop", { [place]: { usage: { prompt_tokens: 9, completion_tokens: 9 } } }),
      doneEvent,
    ),
    ask: { stream_options: { include_usage: true } },
    sees: (reply: FaultReply, form: Form) => expectShown(form, reply, estimate),
    charge: cost(estimate),
    estimated: true,
  })),
  {
    row: 86,
    name: "usage in every chunk, the last one impossible: never less than the last valid one",
    forms: ["chat stream"],
    answer: reportingOften([1, 4, -7]),
    charge: cost({ prompt: 20, completion: 4 }),
    estimated: true,
    sees: (reply) => expect(reasonOf(reply)).toBe("stop"),
  },
  {
    row: 79,
    name: "usage missing, not asked for by the client",
    forms: ["chat stream"],
    answer: stream(helloEvent, thereEvent, stopEvent, doneEvent),
    sees: (reply) => expect(reply.text).not.toContain("usage"),
    charge: cost(estimate),
    estimated: true,
  },
]);

const early = { usage: { prompt_tokens: 20, completion_tokens: 7 } };
testBrokenStream(setup, [
  {
    row: 89,
    name: "usage came before the stream died",
    forms: ["chat stream"],
    answer: cut("fin", streamHead, piece(chatEvent({ content: "Hello" }, null, early))),
    before: { chat: ["Hello"] },
    outcome: "closed",
  },
]);

const hugest = 999_999_999;
const huge = setup.model(88, { answer: reporting({ prompt: "20", completion: String(hugest) }) });
test("row 88: usage of almost 10^9 is believed, and costs no more than there is", async () => {
  const balance = 1_000_000_000n;
  const key = await setup.gateway.key("bob", "1");
  const { id } = await setup.ask("chat", huge, {}, key);
  const whole = cost({ prompt: 20, completion: hugest });
  expect(await setup.record({ id }, balance)).toMatchObject({
    status: "done",
    completionTokens: hugest,
    charge: balance,
    writeOff: whole - balance,
  });
  await setup.gateway.unreserved("bob");
  expect(await setup.gateway.cli.json("balance", "show", "bob")).toMatchObject({
    balance_rub: "0",
    held_rub: "0",
  });
});

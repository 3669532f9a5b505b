import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { costOf } from "../../../src/billing/cost.ts";
import { receiptForm } from "../../../src/contract/account/receipt.ts";
import type { Receipt } from "../../../src/contract/account/receipt.ts";
import { ofEachFigure, ofEachPrice } from "../../../src/contract/figures.ts";
import { capParts } from "../../../src/contract/figureParts.ts";
import { formatRoubles, parseRoubles } from "../../../src/lib/money.ts";
import { multiplicationOf } from "../../../src/web/receipt/multiplication.ts";

const receipt: Receipt = {
  id: "req_1",
  at: "2026-11-24T03:00:00.000Z",
  key_id: "key_1",
  endpoint: "chat",
  model: "some-model",
  stream: true,
  status: "done",
  prompt_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  cache_write_1h_tokens: 0,
  completion_tokens: 0,
  web_searches: 0,
  estimated: false,
  cost_rub: "0",
  duration_ms: 1200,
  first_byte_ms: 300,
  refunded_rub: "0",
  rub_input_per_1m: 25_000,
  rub_output_per_1m: 200_000,
  rub_cached_input_per_1m: 2500,
  rub_cache_write_per_1m: 31_250,
  rub_cache_write_1h_per_1m: 50_000,
  rub_web_search_per_1k: 900_000,
  attempts: [],
};

interface Case {
  readonly what: string;
  readonly fields: Partial<Receipt>;
  readonly lines: [price: string, count: number, priceRub: string, amount: string][];
  readonly difference?: string;
  readonly net?: string;
}

const cases: readonly Case[] = [
  {
    what: "a prompt and an answer",
    fields: { prompt_tokens: 4, completion_tokens: 82, cost_rub: "0.0165" },
    lines: [
      ["input", 4, "25", "0.0001"],
      ["output", 82, "200", "0.0164"],
    ],
  },
  {
    what: "every kind of usage",
    fields: {
      prompt_tokens: 1000,
      cached_tokens: 300,
      cache_write_tokens: 500,
      cache_write_1h_tokens: 200,
      completion_tokens: 7,
      web_searches: 3,
      cost_rub: "2.726525",
    },
    lines: [
      ["input", 200, "25", "0.005"],
      ["cachedInput", 300, "2.5", "0.00075"],
      ["cacheWrite", 300, "31.25", "0.009375"],
      ["cacheWrite1h", 200, "50", "0.01"],
      ["output", 7, "200", "0.0014"],
      ["webSearch", 3, "900", "2.7"],
    ],
  },
  {
    what: "audio, which has a price of its own within the prompt and the answer",
    fields: {
      prompt_tokens: 1000,
      cached_tokens: 300,
      audio_input_tokens: 200,
      rub_audio_input_per_1m: 75_000,
      cached_audio_input_tokens: 100,
      rub_cached_audio_input_per_1m: 7500,
      completion_tokens: 7,
      audio_output_tokens: 5,
      rub_audio_output_per_1m: 800_000,
      cost_rub: "0.03315",
    },
    lines: [
      ["input", 500, "25", "0.0125"],
      ["cachedInput", 200, "2.5", "0.0005"],
      ["output", 2, "200", "0.0004"],
      ["audioInput", 200, "75", "0.015"],
      ["cachedAudioInput", 100, "7.5", "0.00075"],
      ["audioOutput", 5, "800", "0.004"],
    ],
  },
  {
    what: "a prompt that was cached as a whole",
    fields: { prompt_tokens: 10, cached_tokens: 10, cost_rub: "0.000025" },
    lines: [
      ["input", 0, "25", "0"],
      ["cachedInput", 10, "2.5", "0.000025"],
    ],
  },
  {
    what: "a failed request, which is not charged",
    fields: { status: "failed", prompt_tokens: 10, completion_tokens: 5 },
    lines: [
      ["input", 10, "25", "0.00025"],
      ["output", 5, "200", "0.001"],
    ],
    difference: "-0.00125",
  },
  {
    what: "a refund of a part",
    fields: { prompt_tokens: 40, cost_rub: "0.001", refunded_rub: "0.0004" },
    lines: [["input", 40, "25", "0.001"]],
    net: "0.0006",
  },
];

describe("the multiplication of a receipt", () => {
  for (const { what, fields, lines, difference = "0", net } of cases) {
    test(`writes out ${what}`, () => {
      const found = multiplicationOf({ ...receipt, ...fields });
      expect(
        found.lines.map(({ figure, count, priceRub, amountRub }) => [
          figure.price.name,
          count,
          priceRub,
          amountRub,
        ]),
      ).toEqual(lines);
      expect(found.differenceRub).toBe(difference);
      const cost = fields.cost_rub ?? "0";
      expect(found.costRub).toBe(cost);
      expect(found.netRub).toBe(net ?? cost);
    });
  }

  test("adds up to what the gateway charges, for any usage and prices", () => {
    const counts = fc.record(
      ofEachFigure(({ unit }) =>
        fc.integer({ min: 0, max: unit.things === "tokens" ? 100_000_000 : 1000 }),
      ),
    );
    const prices = fc.record(
      ofEachPrice(({ unit }) =>
        fc.bigInt({ min: 0n, max: 1_000_000n }).map((of) => of * unit.nanoOfOne),
      ),
    );
    fc.assert(
      fc.property(counts, prices, (most, price) => {
        const used = capParts(most);
        const charge = costOf(used, price);
        const form = receiptForm({
          ...used,
          id: "req_1",
          at: 0,
          key: "key_1",
          endpoint: "chat",
          model: "m",
          stream: false,
          pricing: null,
          status: "done",
          estimated: false,
          charge,
          durationMs: 1,
          firstByteMs: null,
          price,
          refunded: 0n,
        });
        const { lines, differenceRub } = multiplicationOf(form);
        const sum = lines.reduce((total, line) => total + (parseRoubles(line.amountRub) ?? 0n), 0n);
        expect(differenceRub).toBe("0");
        expect(formatRoubles(sum)).toBe(form.cost_rub);
      }),
    );
  });
});

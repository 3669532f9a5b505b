import { expect, test } from "bun:test";
import { ask } from "../../support/gateway/chatCalls.ts";
import { beginning, everyForm, validAnswer } from "../../support/faults/faultAnswers.ts";
import { openFaultSetup } from "../../support/faults/faultSetup.ts";
import { expectEnd, expectUsual, usualCharge } from "../../support/faults/faultTests.ts";
import { chatBytes, connectRaw, type RawClient } from "../../support/gateway/rawClient.ts";
import { streamHead } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

/** Streams that a provider never continues must not affect other requests (rows 7, 8 and 54, three hundred times). */
const setup = openFaultSetup({ billing: { disconnect_grace: "100ms" } });
const hungStreams = 300;
const measurements = 52;
const roundsMax = 4;
const testTimeoutMs = 60_000;

/** Three ways to hang: before any byte, after the head, and after the first content. */
const hanging = [
  setup.model(7, { answer: () => new Promise(() => {}) }),
  setup.model(8, {
    answer: async (peer) => {
      await peer.send(streamHead);
    },
  }),
  setup.model(54, { answer: beginning }),
];
const prompt = setup.model(0, { answer: validAnswer, settings: { connect_timeout: "5s" } });

/** How long requests to the other provider take, one after the other: the median, and what nine of ten stay below. */
interface Pace {
  readonly medianMs: number;
  readonly slowMs: number;
}

async function measure(): Promise<Pace> {
  const times: number[] = [];
  for (let count = 0; count < measurements; count += 1) {
    const form = everyForm[count % everyForm.length] ?? "chat";
    const startedMs = performance.now();
    const reply = await setup.ask(form, prompt);
    times.push(performance.now() - startedMs);
    expectUsual(form, reply);
    expectEnd(await setup.record(reply, usualCharge), { status: "done", charge: usualCharge });
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor(times.length * share)] ?? Infinity;
  return { medianMs: at(0.5), slowMs: at(0.9) };
}

function isAsFast(busy: Pace, idle: Pace): boolean {
  return busy.medianMs < 2 * idle.medianMs + 5 && busy.slowMs < 3 * idle.slowMs + 20;
}

/** Hung streams that are felt are felt each time; what else the machine does passes. */
async function measureAgainst(idle: Pace): Promise<Pace> {
  let pace = await measure();
  for (let more = 1; more < roundsMax && !isAsFast(pace, idle); more += 1) pace = await measure();
  return pace;
}

/** On a socket of its own: Bun's `fetch` runs 256 requests at once at most, in the whole process. */
async function hang(key: string, index: number): Promise<RawClient> {
  const model = hanging[index % hanging.length];
  const client = await connectRaw(Number(new URL(setup.gateway.url).port));
  client.send(chatBytes(key, JSON.stringify(ask({ model, stream: true }))));
  return client;
}

test(
  `${hungStreams} hung streams on provider A: a request to provider B answers as fast as on an idle gateway`,
  async () => {
    await measure(); // Warms up.
    const idle = await measure();

    const key = await setup.gateway.key("patient", "1000");
    const clients: RawClient[] = [];
    for (let index = 0; index < hungStreams; index += 1) clients.push(await hang(key, index));
    const asked = (): number => hanging.reduce((sum, model) => sum + setup.calls(model)[0], 0);
    await until("all hang at the provider", () => asked() === hungStreams, testTimeoutMs);

    const busy = await measureAgainst(idle);
    const figures = [idle.medianMs, busy.medianMs, idle.slowMs, busy.slowMs];
    const [idleMedian, busyMedian, idleSlow, busySlow] = figures.map((ms) => ms.toFixed(1));
    process.stdout.write(
      `idle and beside hung streams: median ${idleMedian} and ${busyMedian} ms, nine of ten within ${idleSlow} and ${busySlow} ms\n`,
    );
    expect(clients.filter(({ isClosed }) => isClosed)).toEqual([]);
    expect(isAsFast(busy, idle)).toBe(true);

    for (const client of clients) client.fin();
    for (const model of hanging) await setup.released(model);
    const isOver = ({ msg, model }: { msg: string; model?: unknown }): boolean =>
      msg === "request" && hanging.includes(String(model));
    await until(
      "all are over",
      () => setup.gateway.log.filter(isOver).length === hungStreams,
      testTimeoutMs,
    );
  },
  testTimeoutMs,
);

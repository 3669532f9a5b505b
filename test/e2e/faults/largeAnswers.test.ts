import { beforeAll, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import {
  beginning,
  begun,
  byForm,
  everyForm,
  interfaceOf,
  jsonForms,
  streamForms,
  typeOf,
  usualBody,
  validAnswer,
  type FaultyAnswer,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup, type FaultReply } from "../../support/faults/faultSetup.ts";
import {
  expectBroken,
  expectEnd,
  expectSecond,
  expectUnavailable,
  expectUsual,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { growthDuring } from "../../support/measurement.ts";
import { piece, streamEnd, streamHead, text } from "../../support/provider/scriptedProvider.ts";
import { amount, sample } from "../../support/sample.ts";

/**
 * Rows 32, 48, 67, 68 and 72: more than anybody should send. One after the other, for what is looked at beside
 * the answer is the memory of the gateway and whether others still have their turn.
 */
const setup = openFaultSetup();
const megabyte = 1_048_576;
const block = Buffer.alloc(megabyte, 0x20);
const testTimeoutMs = 60_000;

/**
 * The most that is taken of an answer after the gateway has given it up: what the system's buffers on both sides hold, and
 * what Bun reads on a busy machine before the gateway has its turn.
 */
const buffersBytes = 48 * megabyte;

/** How much of the latest giant answer was taken. */
let takenBytes = 0;

/** Sends this many megabytes of spaces after `head`, as far as they are accepted. */
function gigantic(head: string, megabytes: number): FaultyAnswer {
  return async (peer) => {
    takenBytes = 0;
    await peer.send(head);
    for (let sent = 0; sent < megabytes; sent += 1) {
      await peer.send(block);
      takenBytes += megabyte;
    }
  };
}

function headOf(status: number, type: string, megabytes: number): string {
  return `HTTP/1.1 ${status} X\r\ncontent-type: ${type}\r\ncontent-length: ${megabytes * megabyte}\r\n\r\n`;
}

/** 200 KB that would be 200 MB. */
const bombBytes = gzipSync(Buffer.alloc(200 * megabyte));

const warm = setup.model(0, { answer: validAnswer });
const warmUps = amount(30, 100);
beforeAll(async () => {
  // What a first request takes is no growth of a later one's.
  const warmUp = async (form: Form) => setup.record(await setup.ask(form, warm), usualCharge);
  for (let count = 0; count < warmUps; count += 1) await Promise.all(everyForm.map(warmUp));
}, testTimeoutMs);

/** The answer, while the gateway grew by no more than so many bytes. */
async function within(bytesMax: number, form: Form, model: string): Promise<FaultReply> {
  const replies: FaultReply[] = [];
  const growth = await growthDuring(setup.gateway.pids, async () => {
    replies.push(await setup.ask(form, model));
  });
  expect(growth).toBeLessThan(bytesMax);
  const [reply] = replies;
  if (reply === undefined) throw new Error("unreachable");
  return reply;
}

for (const form of sample(everyForm, 2)) {
  const giant = setup.model(32, {
    answer: gigantic(headOf(500, "application/json", 1024), 1024),
    hasNext: true,
  });
  test(
    `row 32: 500 with a body of 1 GiB (${form}): cancelled, the next route answers`,
    async () => {
      const reply = await within(10 * megabyte, form, giant);
      expectUsual(form, reply);
      await expectSecond(setup, reply, "status 500");
      await setup.released(giant);
      expect(takenBytes).toBeLessThan(buffersBytes);
    },
    testTimeoutMs,
  );

  const bomb = setup.model(72, {
    answer: (peer, request) =>
      text(bombBytes, { type: typeOf(form), headers: { "content-encoding": "gzip" } })(
        peer,
        request,
      ),
    hasNext: true,
  });
  test(
    `row 72: a gzip bomb (${form}): nothing is inflated, the next route answers`,
    async () => {
      const reply = await within(10 * megabyte, form, bomb);
      expectUsual(form, reply);
      await expectSecond(setup, reply, "compressed");
    },
    testTimeoutMs,
  );
}
for (const form of sample(jsonForms, 2)) {
  const limit = form === "embeddings" ? 192 : 32;
  const large = setup.model(48, {
    answer: gigantic(headOf(200, typeOf(form), 1024), 1024),
    hasNext: true,
  });
  test(
    `row 48: 200 with more than ${limit} MiB (${form}): given up there, the next route answers`,
    async () => {
      // The answer so far, and not twice: it is only put together when it is whole.
      const reply = await within((1.25 * limit + 20) * megabyte, form, large);
      expectUsual(form, reply);
      await expectSecond(setup, reply, "too large");
      await setup.released(large);
      expect(takenBytes).toBeLessThanOrEqual(limit * megabyte + buffersBytes);
    },
    testTimeoutMs,
  );
}

/** The first route's answer was in excess: no other route was asked, and the client pays as one that left. */
async function expectPaid(reply: FaultReply, model: string): Promise<void> {
  const { charge } = await setup.record(reply, 0n);
  expect(charge).toBeGreaterThan(0n);
  const record = await setup.record(reply, charge);
  expect(record).toMatchObject({ status: "cancelled", estimated: true });
  expect(record.attempts).toMatchObject([{ outcome: "too large" }]);
  expect(setup.calls(model)).toEqual([1, 0]);
}

/** The event so far, in a buffer that doubles: the last of those before it are garbage by then. */
const eventGrowthBytes = 160 * megabyte;

for (const form of sample(streamForms, 2)) {
  const chunkHead = `${(100 * megabyte).toString(16)}\r\ndata: `;
  const early = setup.model(67, {
    answer: gigantic(`${streamHead}${chunkHead}`, 100),
    hasNext: true,
  });
  const late = setup.model(67, {
    answer: async (peer, request, client) => {
      await beginning(peer, request, client);
      await client.seen("Hello");
      await gigantic(chunkHead, 100)(peer, request, client);
    },
    hasNext: true,
  });
  test(
    `row 67: a line of 100 MiB as the first event (${form}): 502 at the first route, and it is paid`,
    async () => {
      const reply = await within(eventGrowthBytes, form, early);
      expectUnavailable(reply);
      await expectPaid(reply, early);
      await setup.released(early);
      expect(takenBytes).toBeLessThan(32 * megabyte + buffersBytes);
    },
    testTimeoutMs,
  );
  test(
    `row 67: a line of 100 MiB after content (${form}): cut at 32 MiB, and it is paid`,
    async () => {
      const reply = await within(eventGrowthBytes, form, late);
      expectBroken(form, reply, begun);
      await expectPaid(reply, late);
      await setup.released(late);
      expect(takenBytes).toBeLessThan(32 * megabyte + buffersBytes);
    },
    testTimeoutMs,
  );
}

/** A million of these are 10 MB. */
const tinyEvent = "data: {}\n\n";
const tinyEvents = tinyEvent.repeat(100_000);
const repetitions = 10;
const tinyAnswer = byForm((form) => async (peer) => {
  await peer.send(streamHead);
  for (let sent = 0; sent < repetitions; sent += 1) await peer.send(piece(tinyEvents));
  await peer.send(piece(usualBody[form]));
  await peer.send(streamEnd);
});

/** How long the health checks took that were made while the work was done, the quickest first. */
async function healthMsDuring(work: () => Promise<void>): Promise<number[]> {
  const times: number[] = [];
  const over = new AbortController();
  const check = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const startedMs = performance.now();
      await (await fetch(`${setup.gateway.url}/healthz`)).text();
      times.push(performance.now() - startedMs);
      await Bun.sleep(1);
    }
  };
  const checks = check();
  try {
    await work();
  } finally {
    over.abort();
    await checks;
  }
  return times.sort((a, b) => a - b);
}

for (const form of sample(streamForms, 2)) {
  const tiny = setup.model(68, { answer: tinyAnswer, hasNext: true });
  test(
    `row 68: a million tiny events (${form}): others have their turn all the while`,
    async () => {
      const replies: FaultReply[] = [];
      const times = await healthMsDuring(async () => {
        // A million views of bytes are garbage that is collected now and then: up to 363 MB on a busy machine.
        replies.push(await within(512 * megabyte, form, tiny));
      });
      const [reply] = replies;
      if (reply === undefined) throw new Error("unreachable");
      const before = interfaceOf(form) === "chat" ? "" : tinyEvents.repeat(repetitions);
      expect(reply.text.startsWith(before)).toBe(true);
      expectUsual(form, { ...reply, text: reply.text.slice(before.length) });
      expectEnd(await setup.record(reply, usualCharge), { status: "done", charge: usualCharge });
      const slowOne = times[Math.floor(times.length * 0.9)] ?? Infinity;
      process.stdout.write(
        `${times.length} health checks, nine of ten within ${slowOne.toFixed(1)} ms\n`,
      );
      expect(times.length).toBeGreaterThan(20);
      expect(slowOne).toBeLessThan(50);
    },
    testTimeoutMs,
  );
}

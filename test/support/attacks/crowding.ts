import type { Socket } from "bun";
import { redeem, unknownCode } from "../gateway/voucherCalls.ts";
import { sendTimed } from "../generation/timedClient.ts";
import { inBothForms, requestBytes, type Way } from "../generation/ways.ts";
import { several } from "../several.ts";
import type { Attack, AttackRun } from "./attack.ts";
import { boundTokens, plannedBytes, type AttackSetup } from "./setup.ts";
import { asksFor, type VictimAsks } from "./victim.ts";

/** Attacks on what all tenants share: connections, descriptors, memory, the event loop, the limits of an account. */

const chatWays = inBothForms("chat/completions", "gpt");
const chatStream: Way = { path: "chat/completions", model: "gpt", stream: true };
/** Another address of the loopback network than the victim's. */
const attackerAddress = "127.0.0.2";
const fromAttacker = { localAddress: attackerAddress };
const timeoutMs = 30_000;
const pauseMs = 200;

/** Keeps so many connections open that say nothing further than `said`, until it is over. */
async function crowd({ setup, isOver }: AttackRun, count: number, said: string): Promise<void> {
  const open = new Set<Socket>();
  const connectOne = async (): Promise<void> => {
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: setup.port,
      ...fromAttacker,
      socket: { data() {}, close: (closed) => void open.delete(closed), error() {} },
    });
    open.add(socket);
    socket.write(said);
  };
  while (!isOver()) {
    await Promise.allSettled(several(count - open.size, connectOne));
    await Bun.sleep(pauseMs);
  }
  for (const socket of open) socket.terminate();
}

const halfHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

/** Sends again and again the same bytes, and reads what comes, on so many connections. */
async function flood(
  { setup, isOver }: AttackRun,
  count: number,
  bytesOf: () => string,
): Promise<void> {
  const loop = async (): Promise<void> => {
    while (!isOver()) {
      const bytes = bytesOf();
      await sendTimed({ port: setup.port, bytes, timeoutMs, from: attackerAddress });
    }
  };
  await Promise.all(several(count, loop));
}

const PIPELINED = 20_000;

/** Pipelines so many requests on one connection, and reads the answers. */
async function pipeline({ setup, isOver }: AttackRun): Promise<void> {
  const line = `GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${setup.attackerKey}\r\n\r\n`;
  const bytes = Buffer.from(line.repeat(PIPELINED));
  while (!isOver()) {
    const closed = Promise.withResolvers<void>();
    let unsent = bytes;
    const send = (socket: Socket): void => {
      unsent = unsent.subarray(Math.max(socket.write(unsent), 0));
    };
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: setup.port,
      ...fromAttacker,
      socket: { open: send, drain: send, data() {}, close: () => closed.resolve(), error() {} },
    });
    await Promise.race([closed.promise, Bun.sleep(timeoutMs / 10)]);
    socket.terminate();
  }
}

const LARGE_BODY_TOKENS = 524_288;

/** A body of two megabytes. */
function largeBody({ attackerKey }: AttackSetup): string {
  const prompt = "large ".repeat((LARGE_BODY_TOKENS * 4) / 6);
  return requestBytes(chatStream, attackerKey, { prompt, bound: boundTokens });
}

const vouchers = new WeakMap<AttackSetup, Promise<readonly string[]>>();

/** The other key of the attacked account redeems vouchers. */
const redeems: VictimAsks = async (setup, number) => {
  const made = vouchers.get(setup) ?? createVouchers(setup);
  vouchers.set(setup, made);
  const code = (await made)[number];
  if (code === undefined) throw new Error("there are no more vouchers");
  const { status, text } = await redeem(setup.gateway, { key: setup.siblingKey }, code);
  return status === 200 ? undefined : `${status} ${text}`;
};

async function createVouchers({ gateway }: AttackSetup): Promise<readonly string[]> {
  const options = ["--amount", "0.002", "--count", "500"];
  const made = (await gateway.cli.json("vouchers", "create", ...options)) as { code: string }[];
  return made.map(({ code }) => code);
}

/** Sends codes of no voucher. */
async function guessCodes({ setup, isOver }: AttackRun): Promise<void> {
  while (!isOver()) {
    await redeem(setup.gateway, { key: setup.attackerKey }, unknownCode());
    await Bun.sleep(pauseMs / 4);
  }
}

const unhurried = { promptTokens: 200, firstMs: 200, hiddenTokens: 0, visibleTokens: 400 };

export const crowdingAttacks: readonly Attack[] = [
  {
    name: "descriptors used up",
    gateway: { descriptors: 1024 },
    victim: asksFor(chatWays),
    isPaid: true,
    run: async (given) => {
      const plan = { name: "streams", ...unhurried };
      const bytes = (): string => plannedBytes(given.setup.attackerKey, chatStream, plan);
      await Promise.all([crowd(given, 1200, halfHead), flood(given, 20, bytes)]);
    },
  },
  {
    name: "400 idle connections",
    gateway: { descriptors: 400 },
    victim: asksFor(chatWays),
    isPaid: false,
    run: (given) => crowd(given, 400, ""),
  },
  {
    name: "20,000 pipelined requests",
    gateway: {},
    victim: asksFor(chatWays),
    isPaid: false,
    run: pipeline,
  },
  {
    name: "wrong voucher codes",
    gateway: {},
    victim: redeems,
    isPaid: false,
    run: guessCodes,
  },
  {
    name: "2 MB x 16, without money",
    gateway: { credit: "0" },
    victim: asksFor(chatWays),
    isPaid: false,
    run: (given) => flood(given, 16, () => largeBody(given.setup)),
  },
];

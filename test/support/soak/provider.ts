import { typeOf } from "../faults/faultAnswers.ts";
import { bodyReporting } from "../provider/reportedUsage.ts";
import type { RawPeer } from "../provider/rawServer.ts";
import {
  piece,
  refusal,
  startProvider,
  streamEnd,
  streamHead,
  text,
  type ProviderAnswer,
  type ScriptedProvider,
} from "../provider/scriptedProvider.ts";
import { figuresOf, plannedNumberIn, planOf, type Fault, type Plan } from "./plan.ts";

/** A provider that follows the plan of each request; the healthy one answers where the plan has a fault. */
export function startSoakProvider(seed: number, isValid: boolean): ScriptedProvider {
  return startProvider((peer, request) => {
    const plan = planOf(seed, plannedNumberIn(request.body));
    const played = plan.fault === undefined || isValid ? answer : faults[plan.fault];
    return played(plan)(peer, request);
  });
}

type Played = (plan: Plan) => ProviderAnswer;

const answer: Played = (plan) => async (peer) => {
  const isStream = plan.form.endsWith("stream");
  if (!isStream && plan.paceMs > 0) await Bun.sleep(plan.paceMs);
  for (const part of partsOf(plan)) {
    await peer.send(part);
    if (isStream && plan.paceMs > 0) await Bun.sleep(plan.paceMs);
  }
};

/** A head and half an object, or two events, the second with content; and then what `next` does. */
function half(next: (peer: RawPeer) => Promise<void> | void): Played {
  return (plan) => async (peer) => {
    const count = plan.form.endsWith("stream") ? 3 : 2;
    await peer.send(Buffer.concat(partsOf(plan).slice(0, count)));
    await next(peer);
  };
}

const page: ProviderAnswer = text("<html><body>502 Bad Gateway</body></html>", {
  type: "text/html",
});
const overdue = { "retry-after": "1" };

const faults: Readonly<Record<Fault, Played>> = {
  "status 400": () => refusal(400),
  "status 429": () => refusal(429, "slow down", overdue),
  "status 500": () => refusal(500),
  "status 503": () => refusal(503),
  page: () => page,
  fin: () => (peer) => peer.fin(),
  reset: () => (peer) => peer.reset(),
  stall: () => (peer) => peer.closed,
  "half and fin": half((peer) => peer.fin()),
  "half and reset": half((peer) => peer.reset()),
  "half and stall": half((peer) => peer.closed),
};

/** The answer as it is sent, in two pieces or more. */
function partsOf({ number, form }: Plan): Buffer[] {
  const { prompt, completion, cached } = figuresOf(number);
  const reported = {
    prompt: String(prompt),
    completion: String(completion),
    total: String(prompt + completion),
    cached: String(cached),
  };
  const body = bodyReporting(form, reported).replaceAll("resp_1", `resp_${number}`);
  if (form.endsWith("stream")) {
    const events = body.split(/(?<=\n\n)/).filter((event) => event !== "");
    return [Buffer.from(streamHead), ...events.map(piece), Buffer.from(streamEnd)];
  }
  const bytes = Buffer.from(body);
  const head = `HTTP/1.1 200 OK\r\ncontent-type: ${typeOf(form)}\r\ncontent-length: ${bytes.byteLength}\r\n\r\n`;
  const middle = Math.floor(bytes.byteLength / 2);
  return [Buffer.from(head), bytes.subarray(0, middle), bytes.subarray(middle)];
}

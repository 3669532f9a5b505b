import { afterAll, expect } from "bun:test";
import { openSilentPort } from "../../support/provider/silentPort.ts";
import { everyForm, validAnswer } from "../../support/faults/faultAnswers.ts";
import { shortTimeouts, openFaultSetup } from "../../support/faults/faultSetup.ts";
import {
  expectEnd,
  expectSecond,
  expectUsual,
  testFailover,
  testRow,
  testServed,
  usualCharge,
} from "../../support/faults/faultTests.ts";
import { startRawServer, type CertificateName } from "../../support/provider/rawServer.ts";
import {
  raw,
  startProvider,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";

/** Rows 1 to 12 and 15: the way to a provider, and a provider that does not say anything sensible. */
const setup = openFaultSetup();
const closed = startRawServer(() => {});
closed.stop();
const silentPort = await openSilentPort();
/** Takes connections and says nothing, not even a handshake. */
const mute = startRawServer(() => {});
/** What came through a handshake with a certificate that must not be believed. */
const secrets: string[] = [];
const impostors = (["selfSigned", "expired", "otherHost"] as const).map((certificate) => ({
  certificate,
  server: startRawServer(
    async (peer) => {
      secrets.push(await peer.request());
    },
    { certificate },
  ),
}));
afterAll(() => {
  // Row 4: no server with a wrong certificate received a request.
  expect(secrets).toEqual([]);
  silentPort.stop();
  mute.stop();
  for (const { server } of impostors) server.stop();
});

const okHead = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const unreached: ProviderAnswer = () => {
  throw new Error("no request was expected here");
};

/** A provider at this address. */
function routesAt(url: string, more: Readonly<Record<string, string>> = {}) {
  return { answer: unreached, forms: everyForm, settings: { base_url: url, ...more } };
}

function hangingUp(how: "fin" | "reset"): ProviderAnswer {
  return (peer) => peer[how]();
}

const authority = new URL("../../support/certificates/authority.pem", import.meta.url).pathname;
const whatIsWrong: Readonly<Record<string, string>> = {
  selfSigned: "self-signed",
  expired: "expired",
  otherHost: "for another host",
} satisfies Partial<Record<CertificateName, string>>;

testFailover(setup, [
  {
    ...routesAt(`http://127.0.0.1:${closed.port}/v1`),
    row: 1,
    name: "connection refused",
    outcome: "refused",
  },
  {
    ...routesAt("http://tollgate-test.invalid/v1"),
    row: 2,
    name: "DNS NXDOMAIN",
    outcome: "dns",
  },
  ...impostors.map(({ certificate, server }) => {
    const trusted: Record<string, string> =
      certificate === "selfSigned" ? {} : { ca_file: authority };
    const row = { row: 4, name: `a certificate that is ${whatIsWrong[certificate]}` };
    return Object.assign(routesAt(`https://localhost:${server.port}/v1`, trusted), row, {
      outcome: "tls",
    });
  }),
  {
    ...routesAt(`https://127.0.0.1:${mute.port}/v1`, shortTimeouts),
    row: 5,
    name: "TCP accepted, TLS handshake hangs",
    outcome: "timeout",
  },
  {
    ...routesAt(`http://127.0.0.1:${silentPort.port}/v1`, shortTimeouts),
    row: 6,
    name: "SYN blackhole",
    outcome: "timeout",
  },
  {
    ...routesAt(`http://127.0.0.1:${mute.port}/v1`, shortTimeouts),
    row: 7,
    name: "accepts, never answers",
    outcome: "timeout",
  },
  ...["HTTP/1.1 200 OK\r\n", `${okHead}content-len`, "H"].map((part) => ({
    row: 8,
    name: `${part.length} bytes of a response head, then silence`,
    forms: everyForm,
    answer: raw(part),
    settings: shortTimeouts,
    outcome: "timeout",
  })),
  { row: 9, name: "closes at once", forms: everyForm, answer: hangingUp("fin"), outcome: "closed" },
  { row: 9, name: "resets", forms: everyForm, answer: hangingUp("reset"), outcome: "closed" },
  ...(
    [
      ["garbage", "no HTTP at all\r\n\r\n"],
      ["HTTP 0.9", "<html>hello</html>\n"],
      ["binary", "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\r\n\r\n\u00ff\u00fe"],
      ["a NUL in the head", `${okHead}x-odd: a\u0000b\r\n\r\n{}`],
    ] as const
  ).map(([name, text]) => ({
    row: 10,
    name,
    forms: everyForm,
    answer: async (...[peer]: Parameters<ProviderAnswer>) => {
      await peer.send(text);
      peer.fin();
    },
    outcome: "protocol",
  })),
  ...[65_536, 1_048_576].map((bytes) => ({
    row: 11,
    name: `a response head of more than ${bytes} bytes`,
    forms: everyForm,
    answer: raw(`${okHead}x-long: ${"a".repeat(bytes)}\r\n\r\n{}`),
    outcome: "protocol",
  })),
]);

const dying = startProvider(validAnswer);
/** One for each form, because five failures of a route open its breaker. */
const mortals = everyForm.map((form) => {
  const url = `http://127.0.0.1:${dying.port}/v1`;
  return [form, setup.model(12, { ...routesAt(url), hasNext: true })] as const;
});
testRow(12, "provider A dies, B is fine: 200 from B, two attempts, one charge", async () => {
  setup.gateway.auditor.listenTo(dying);
  for (const [form, mortal] of mortals) {
    const reply = await setup.ask(form, mortal);
    expectUsual(form, reply);
    expectEnd(await setup.record(reply, usualCharge), { status: "done", charge: usualCharge });
  }
  expect(dying.requests).toHaveLength(everyForm.length);
  dying.stop();
  for (const [form, mortal] of mortals) {
    const reply = await setup.ask(form, mortal);
    expectUsual(form, reply);
    await expectSecond(setup, reply, "refused");
  }
});

const slowness = 600;
testServed(setup, [
  {
    row: 15,
    name: "a slow provider within its timeouts causes no second attempt",
    forms: everyForm,
    answer: async (peer, request) => {
      await Bun.sleep(slowness);
      await validAnswer(peer, request);
    },
    charge: usualCharge,
  },
]);
testFailover(setup, [
  {
    row: 15,
    name: "a provider slower than its timeouts",
    forms: everyForm,
    answer: async (peer, request) => {
      await Bun.sleep(4 * slowness);
      await validAnswer(peer, request);
    },
    settings: shortTimeouts,
    outcome: "timeout",
  },
]);

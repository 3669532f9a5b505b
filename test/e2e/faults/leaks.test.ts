import { expect } from "bun:test";
import { messageEvents } from "../../support/gateway/messagesCalls.ts";
import { chunksOf } from "../../support/gateway/chatCalls.ts";
import {
  byForm,
  chatForms,
  everyForm,
  isMessagesForm,
  messagesForms,
  responsesForms,
  translatedForms,
  typeOf,
  usualBody,
  validAnswer,
  type FaultyAnswer,
  type Form,
} from "../../support/faults/faultAnswers.ts";
import { openFaultSetup, type FaultReply } from "../../support/faults/faultSetup.ts";
import { expectUsual, testServed, usualCharge } from "../../support/faults/faultTests.ts";
import { piece, raw, text } from "../../support/provider/scriptedProvider.ts";

/** Rows 74 to 77: what a provider says of itself, and who may see it. */
const setup = openFaultSetup();

const itsHeaders = {
  "set-cookie": "session=canary",
  "openai-organization": "org-canary",
  "openai-processing-ms": "7",
  "x-ratelimit-limit-requests": "5",
  "x-ratelimit-remaining-tokens": "5",
  "x-request-id": "req_canary",
  "x-tollgate-cost-rub": "0",
  server: "canary",
  "alt-svc": 'h3=":443"',
  "cf-ray": "canary",
  "strict-transport-security": "max-age=1",
  "cache-control": "public, max-age=3600",
  via: "1.1 canary",
} as const;
const trailers = Object.entries(itsHeaders)
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join("");

/** The provider's own id and model. In chats they are at the top of each object. */
const itsNames = /"(?:chatcmpl-1|chatcmpl-of-the-provider|m|model-of-the-provider)"/;

function identitiesOf(form: Form, reply: FaultReply): readonly { id: unknown; model: unknown }[] {
  if (form === "translated messages stream")
    return [messageEvents(reply.text)[0]?.data["message"] as { id: unknown; model: unknown }];
  const objects = form === "chat stream" ? chunksOf(reply) : [reply.body];
  return objects as { id: unknown; model: unknown }[];
}

function ownId(form: Form, { id }: FaultReply): string {
  return id.replace("req_", isMessagesForm(form) ? "msg_" : "chatcmpl-");
}

/** Chat answers under an id of the provider's that no client should have to read. */
function named(id: string): FaultyAnswer {
  return byForm((form) => {
    const body = usualBody[form].replaceAll(/"id":"[^"]*"/g, () => `"id":${JSON.stringify(id)}`);
    return text(body, { type: typeOf(form) });
  });
}

testServed(setup, [
  {
    row: 74,
    name: "another model and id than were asked for",
    forms: [...chatForms, ...translatedForms],
    answer: validAnswer,
    sees: (reply, form) => {
      expectUsual(form, reply);
      expect(usualBody[form]).toMatch(itsNames);
      expect(reply.text).not.toMatch(itsNames);
      const own = { id: ownId(form, reply), model: reply.model };
      for (const { id, model } of identitiesOf(form, reply)) expect({ id, model }).toEqual(own);
    },
    charge: usualCharge,
  },
  {
    row: 74,
    name: "another model than was asked for: the bytes are unchanged",
    forms: [...responsesForms, ...messagesForms],
    answer: validAnswer,
    sees: (reply, form) => expect(reply.text).toBe(usualBody[form]),
    charge: usualCharge,
  },
  ...[
    ["of a megabyte", "x".repeat(1_000_000)],
    ["with control characters", "a\u0000b\r\nset-cookie: c\u001b[31m\u2028"],
    ["with markup", '"><script>data: [DONE]</script>'],
  ].map(([name = "", id = ""]) => ({
    row: 75,
    name: `an id ${name}`,
    forms: [...chatForms, ...translatedForms],
    answer: named(id),
    sees: (reply: FaultReply, form: Form) => {
      expectUsual(form, reply);
      expect(reply.bytes.byteLength).toBeLessThan(10_000);
      for (const { id } of identitiesOf(form, reply)) expect(id).toBe(ownId(form, reply));
    },
    charge: usualCharge,
  })),
  {
    row: 76,
    name: "headers of the provider's own",
    forms: everyForm,
    answer: byForm((form) => text(usualBody[form], { type: typeOf(form), headers: itsHeaders })),
    sees: expectNothingOfIts,
    charge: usualCharge,
  },
  {
    row: 77,
    name: "trailers",
    forms: everyForm,
    answer: byForm((form) =>
      raw(
        `HTTP/1.1 200 OK\r\ncontent-type: ${typeOf(form)}\r\ntrailer: set-cookie\r\ntransfer-encoding: chunked\r\n\r\n`,
        piece(usualBody[form]),
        `0\r\n${trailers}\r\n`,
      ),
    ),
    sees: expectNothingOfIts,
    charge: usualCharge,
  },
]);

function expectNothingOfIts(reply: FaultReply, form: Form): void {
  expectUsual(form, reply);
  for (const [name, value] of Object.entries(itsHeaders))
    expect([name, reply.headers.get(name)]).not.toEqual([name, value]);
  expect(JSON.stringify([...reply.headers])).not.toContain("canary");
}

import { isUtf8 } from "node:buffer";
import { describe, expect, test } from "bun:test";
import { agentBody, type AgentForm } from "../../bench/gateway/agentBody.ts";
import { chatFiguresOf, ownChatRules } from "../../src/contract/chat/chatRequest.ts";
import { checkPromptBody, parseJsonObject } from "../../src/contract/jsonBody.ts";
import { checkMessagesRequest } from "../../src/contract/messages/messagesRequest.ts";
import { checkResponsesRequest } from "../../src/contract/responses.ts";
import type { JsonFields } from "../../src/lib/json.ts";
import { amount } from "../support/sample.ts";
import { seededRandom, type Chance } from "../support/seededRandom.ts";
import { refusalOf } from "./refusal.ts";

const rules = { ...ownChatRules({ allowedTools: [] }), refusedFields: ["logit_bias"] };

const checks: Readonly<Record<AgentForm, (value: JsonFields) => object>> = {
  chat: (value) => chatFiguresOf(value, rules),
  responses: (value) => checkResponsesRequest(value, rules),
  messages: (value) => checkMessagesRequest(value, rules),
};
const forms = ["chat", "responses", "messages"] as const;

/** What a check says: its figures, or the message of its refusal. */
async function said(check: () => object): Promise<object | string | undefined> {
  let figures: object | undefined;
  const refusal = await refusalOf(() => {
    figures = check();
  });
  return refusal ? refusal.message : figures;
}

const ofOutline = (form: AgentForm, body: Uint8Array) =>
  said(() => checkPromptBody(body, checks[form]).request);
const ofWhole = (form: AgentForm, body: Uint8Array) =>
  said(() => checks[form](parseJsonObject(body).value));

const long = (unit: string): string => unit.repeat(Math.ceil(600 / unit.length));
const pieces = [
  ...'" \\ \\" \\u \\u12 \\x \n \t \0 { } [ ] , : \\ud83d \\ude00 \\ud83d\\ude00 \\uD83Dx \\\\ud83d'.split(
    " ",
  ),
  ..."é 語 😀 \ufeff \uffff \\uffff \uffff1,1,x\uffff null 01".split(" "),
  '"a":1,"a":2,',
  '"Content":1,',
  ...["é", "語", "\\n", "\\u00e9", "\\ud83d\\ude00"].map((unit) => `"x":"${long(unit)}",`),
  `"type":"${long("image")}",`,
  `"type":"${long("\\u0069mage")}",`,
  `"image_url":{"url":"data:image/png;base64,${"A".repeat(5000)}","detail":"${long("é")}"},`,
  `"reasoning":{"url":"DATA:image/png;name=${"n".repeat(150)};base64,${"A".repeat(5000)}"},`,
  `"reasoning":{"url":"\\u0064ata:image\\/png;base64,${"A".repeat(5000)}"},`,
  `"file_id":"${long("f")}",`,
  `"audio":{"id":"${long("a")}"},`,
  `"${"k".repeat(1030)}":1,`,
  `"${"語".repeat(500)}":1,`,
];

/** A valid body with pieces that may break it, at any place or beside its structure. */
function changed(body: string, chance: Chance): Uint8Array {
  let bytes = Buffer.from(body);
  for (let left = chance.below(4); left > 0; left--) {
    let at = chance.below(bytes.length + 1);
    const mark = chance.pick(['{"', ',"', '":"', '"}', "\\n", " "]);
    const found = bytes.indexOf(mark, at);
    if (chance.chance(0.7) && found >= 0) at = found + chance.below(mark.length + 1);
    const piece = Buffer.from(chance.pick(pieces));
    bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)]);
  }
  // Some bodies do not begin at a multiple of four bytes.
  const before = chance.below(4);
  const shifted = new Uint8Array(before + bytes.length);
  shifted.set(bytes, before);
  return shifted.subarray(before);
}

describe("the check of an outline says what the check of the whole value says", () => {
  for (const form of forms) {
    test(`of broken and odd bodies: ${form}`, async () => {
      for (let seed = 1; seed <= amount(150, 3000); seed++) {
        const chance = seededRandom(seed);
        const bytes = 17_000 + chance.below(20_000);
        const body = agentBody({ form, model: "m", bytes, seed, fields: { max_tokens: 9 } });
        const sent = changed(body, chance);
        // Such a body is refused before it is checked.
        if (!isUtf8(sent)) continue;
        expect(await ofOutline(form, sent)).toEqual(await ofWhole(form, sent));
      }
    });

    test(`of a body with spaces and line ends: ${form}`, async () => {
      const body = agentBody({ form, model: "m", bytes: 50_000, fields: { max_tokens: 9 } });
      const sent = Buffer.from(JSON.stringify(JSON.parse(body), undefined, 2));
      expect(await ofOutline(form, sent)).toEqual(await ofWhole(form, sent));
    });
  }

  test("of strings that end as cut ones do", async () => {
    for (const text of ["\uffff", "a\uffff1,1,\uffff", `${long("a")}\uffff9,9\uffff`]) {
      for (const content of [[{ type: "text", text }], long(text)]) {
        const messages = Array.from({ length: 400 }, () => ({ role: "user", content }));
        const body = Buffer.from(JSON.stringify({ model: "m", messages, documents: text }));
        const figures = await ofOutline("chat", body);
        expect(figures).toBeObject();
        expect(figures).toEqual(await ofWhole("chat", body));
      }
    }
  });
});

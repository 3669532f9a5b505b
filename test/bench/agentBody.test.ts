import { describe, expect, test } from "bun:test";
import { agentBody, type AgentForm } from "../../bench/gateway/agentBody.ts";
import { checkChatRequest, ownChatRules } from "../../src/contract/chat/chatRequest.ts";
import { parseJsonObject } from "../../src/contract/jsonBody.ts";
import { checkMessagesRequest } from "../../src/contract/messages/messagesRequest.ts";
import { checkResponsesRequest } from "../../src/contract/responses.ts";
import type { JsonFields } from "../../src/lib/json.ts";

const rules = { ...ownChatRules({ allowedTools: [] }), allowedTools: [] };

const checks: Readonly<Record<AgentForm, (value: JsonFields) => { promptSize: object }>> = {
  chat: (value) => checkChatRequest(value, rules),
  responses: (value) => checkResponsesRequest(value, rules),
  messages: (value) => checkMessagesRequest(value, rules),
};

describe("a body of a coding agent", () => {
  for (const form of ["chat", "responses", "messages"] as const) {
    for (const bytes of [20_000, 200_000, 500_000]) {
      test(`${form}, ${bytes} bytes: valid, of this length, and the same for its seed`, () => {
        const options = { form, bytes, model: "m", fields: { max_tokens: 100 } };
        const body = agentBody(options);
        expect(Buffer.byteLength(body) / bytes).toBeGreaterThan(0.95);
        expect(Buffer.byteLength(body) / bytes).toBeLessThan(1.1);
        const { promptSize } = checks[form](parseJsonObject(body).value);
        expect(promptSize).toMatchObject({ nonTextParts: bytes > 100_000 ? 1 : 0 });
        expect(agentBody(options)).toBe(body);
        expect(agentBody({ ...options, seed: 2 })).not.toBe(body);
      });
    }
  }
});

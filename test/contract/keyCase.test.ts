import { describe, expect, test } from "bun:test";
import { checkChatRequest } from "../../src/contract/chat/chatRequest.ts";
import { checkResponsesRequest } from "../../src/contract/responses.ts";
import { refusalOf } from "./refusal.ts";

type Fields = Record<string, unknown>;
/** The key that is refused, or undefined where the fields are accepted. */
type Row = readonly [fields: Fields, key: string | undefined];

const rules = {
  unknownFields: "forward",
  extraReasoningEfforts: [],
  refusedFields: ["speed", "webSearch"],
  refusedTools: ["image_generation"],
  allowedTools: ["code_interpreter", "file_search", "shell"],
} as const;
const user = { role: "user", content: "hello" };
const chat = (fields: Fields) =>
  checkChatRequest({ model: "m", messages: [user], ...fields }, rules);
const responses = (fields: Fields) => checkResponsesRequest({ model: "m", ...fields }, rules);

const expectRefusals = (check: (fields: Fields) => unknown, rows: readonly Row[]): void => {
  test.each(rows)("%j: %s", async (fields, key) => {
    const refusal = await refusalOf(() => check(fields));
    expect(refusal?.message).toBe(key && `${key} is not supported`);
    if (key !== undefined) expect(refusal?.status).toBe(400);
  });
};

/** A known top-level field in other case. */
const topLevel: readonly Row[] = [
  ["Model", "expensive"],
  ["MODEL", null],
  ["Max_Tokens", 4000],
  ["max_to\u212aens", 4000],
  ["MAX_TO\u212aEN\u017f", 4000],
  ["max_completion_token\u017f", 4000],
  ["Max_Output_Tokens", 4000],
  ["N", 8],
  ["N_Predict", 4000],
  ["N_CMPL", 8],
  ["Auto_Max_New_Tokens", true],
  ["Service_Tier", "priority"],
  ["Stream", true],
  ["Stream_Options", { include_usage: false }],
  ["Background", true],
  ["Deferred", true],
  ["Tools", []],
  ["Functions", []],
  ["Instructions", "x"],
  ["Previous_Response_Id", "resp_1"],
  ["Conversation", "conv_1"],
  ["Prompt", { id: "pmpt_1" }],
  ["Input", "x"],
  ["Messages", []],
  ["Prompt_Cache_Options", {}],
  ["System", "x"],
  ["Response_Format", {}],
  ["Text", {}],
  ["Stop", "x"],
  ["\u017ftop", "x"],
  ["Store", true],
  ["SPEED", "fast"],
  ["websearch", true],
  ["WEBSEARCH", true],
].map(([key, value]) => [{ [key as string]: value }, key as string] as const);

const accepted: readonly Row[] = [
  { metadata: { Model: "x", N: 8, ID: "y" } },
  { Custom: 1, "X-Model": "x", modèle: "x", modeſl: 1 },
  { reasoningSummary: "auto" },
  JSON.parse('{"__proto__":{"Model":"x"}}') as Fields,
].map((fields) => [fields, undefined] as const);

describe("refuses a known field of a chat in other case", () => {
  expectRefusals(chat, topLevel);
  expectRefusals(chat, accepted);
});

describe("refuses a known field of a responses request in other case", () => {
  expectRefusals(responses, topLevel);
  expectRefusals(responses, accepted);
  expectRefusals(responses, [[{ Request_Id: "resp_1" }, "Request_Id"]]);
});

const message = (fields: Fields): Fields => ({ messages: [user, { ...user, ...fields }] });
const part = (fields: Fields): Fields =>
  message({ content: [{ type: "text", text: "x", ...fields }] });
const schema = { type: "object", properties: { Type: {}, ID: {}, File_Id: {}, Container: {} } };

describe("refuses a known key inside a chat in other case", () => {
  expectRefusals(chat, [
    [{ stream: true, stream_options: { Include_Usage: false } }, "stream_options.Include_Usage"],
    [
      { prompt_cache_options: { Comparison_Response_Id: "resp_1" } },
      "prompt_cache_options.Comparison_Response_Id",
    ],
    [{ Audio: { voice: { id: "voice_1" } } }, "Audio"],
    [{ audio: { Voice: { id: "voice_1" } } }, "audio.Voice"],
    [{ audio: { voice: { ID: "voice_1" } } }, "audio.voice.ID"],
    [{ tools: [{ type: "mcp", Tunnel_Id: "tunnel_1" }] }, "Tunnel_Id"],
    [{ tools: [{ type: "mcp", headers: { Type: "x" } }] }, undefined],
    [message({ Role: "system" }), "messages[1].Role"],
    [message({ Content: "x".repeat(9) }), "messages[1].Content"],
    [message({ Tool_Calls: [] }), "messages[1].Tool_Calls"],
    [message({ audio: { Id: "audio_1" } }), "messages[1].audio.Id"],
    [part({ Type: "image_url" }), "messages[1].content[0].Type"],
    [part({ teXt: "y" }), "messages[1].content[0].teXt"],
    [part({ File: { file_id: "f" } }), "messages[1].content[0].File"],
    [part({ type: "file", file: { File_Id: "f" } }), "messages[1].content[0].file.File_Id"],
    [{ tools: [{ type: "function", Type: "code_interpreter", container: "c" }] }, "Type"],
    [{ tools: [{ type: "code_interpreter", Container: "c" }] }, "Container"],
    [message({ Name: "Bob", cache_control: { Type: "x" } }), undefined],
    [{ tools: [{ type: "function", function: { name: "F", parameters: schema } }] }, undefined],
  ]);
});

const input = (item: Fields): Fields => ({ input: [user, item] });

describe("refuses a known key inside a responses request in other case", () => {
  expectRefusals(responses, [
    [input({ type: "item_reference", id: "a", Id: "msg_1" }), "Id"],
    [input({ ...user, Type: "item_reference", id: "msg_1" }), "Type"],
    [input({ ...user, Content: [] }), "Content"],
    [input({ ...user, role: "user", Role: "system" }), "Role"],
    [input({ type: "additional_tools", tools: [], Tools: [{ type: "mcp" }] }), "Tools"],
    [
      input({ type: "reasoning", encrypted_content: "x", Encrypted_Content: "" }),
      "Encrypted_Content",
    ],
    [input({ ...user, content: [{ type: "input_image", File_Id: "f" }] }), "File_Id"],
    [input({ ...user, content: [{ type: "input_text", Type: "input_image" }] }), "Type"],
    [
      input({ ...user, content: [{ type: "input_file", file_id: "f", "\u017file_id": 1 }] }),
      undefined,
    ],
    [{ prompt: { id: "pmpt_1", ID: "pmpt_2" } }, "prompt.ID"],
    [{ prompt: { id: "pmpt_1", Variables: {} } }, "prompt.Variables"],
    [{ conversation: { id: "conv_1", Id: "conv_2" } }, "conversation.Id"],
    [
      { prompt_cache_options: { comparison_response_id: "resp_1", Comparison_Response_Id: "x" } },
      "prompt_cache_options.Comparison_Response_Id",
    ],
    [{ tools: [{ type: "file_search", Vector_Store_Ids: ["vs"] }] }, "Vector_Store_Ids"],
    [{ tools: [{ type: "custom", Type: "file_search", vector_store_ids: ["vs"] }] }, "Type"],
    [{ tools: [{ type: "shell", environment: { "s\u212aill_id": "x" } }] }, "s\u212aill_id"],
    [{ prompt: { id: "pmpt_1", variables: { Type: "x", ID: "y" } } }, undefined],
    [{ tools: [{ type: "function", name: "f", parameters: schema }] }, undefined],
    [
      input({ type: "local_shell_call", action: { type: "exec", env: { TYPE: "x", ID: "y" } } }),
      undefined,
    ],
    [input({ type: "local_shell_call", action: { type: "exec", Type: "x" } }), "Type"],
    [input({ type: "file_search_call", results: [{ attributes: { Type: "x" } }] }), undefined],
    [input({ type: "made_up", env: { TYPE: "x" } }), "TYPE"],
    [{ tools: [{ type: "mcp", headers: { Type: "x", Container: "y" } }] }, undefined],
    [{ tools: [{ type: "mcp", headers: ["x"], Tunnel_Id: "y" }] }, "Tunnel_Id"],
    [{ tools: [{ type: "file_search", headers: { Container: "y" } }] }, "Container"],
    [input({ type: "mcp_list_tools", id: "x", tools: [{ input_schema: schema }] }), undefined],
  ]);
});

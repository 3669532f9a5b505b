import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/providers/anthropic/anthropic.ts";
import { sentFor } from "../conformance/reading.ts";

const older = "claude-sonnet-5";
const newer = "claude-opus-4-8";

const says = (role: string) => (content: string) => ({ role, content });
const user = says("user");
const assistant = says("assistant");
const system = says("system");
const calling = {
  role: "assistant",
  content: null,
  tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }],
};
const result = { role: "tool", tool_call_id: "a", content: "1" };

const text = (value: string) => ({ type: "text", text: value });
const marked = (value: string) => text(`<system>\n${value}\n</system>`);
const toolUse = { type: "tool_use", id: "a", name: "f", input: {} };
const toolResult = { type: "tool_result", tool_use_id: "a", content: [text("1")] };
const turn = (role: string, ...content: readonly object[]) => ({ role, content });

/** By name: the messages of a chat, and those that are sent. */
type Conversations = Readonly<Record<string, readonly [given: object[], sent: object[]]>>;

interface Sent {
  readonly system?: unknown;
  readonly messages: unknown;
}

function sent(model: string, ...messages: readonly object[]): Sent {
  return JSON.parse(sentFor(anthropic.chat, { messages }, { model })) as Sent;
}

test("instructions before all messages go into the system field", () => {
  const messages = [system("Be brief."), { ...system("Be kind."), role: "developer" }, user("a")];
  for (const model of [older, newer]) {
    expect(sent(model, ...messages)).toMatchObject({
      system: [text("Be brief."), text("Be kind.")],
      messages: [turn("user", text("a"))],
    });
  }
});

describe("instructions within the conversation", () => {
  test("do not change the prefix before them, so its cache stays valid", () => {
    const before = [system("Be brief."), user("a"), assistant("b"), user("c")];
    for (const model of [older, newer]) {
      const first = sent(model, ...before);
      const next = sent(model, ...before, assistant("d"), system("Now in French."), user("e"));
      expect(next.system).toEqual(first.system);
      expect((next.messages as unknown[]).slice(0, 3)).toEqual(first.messages as unknown[]);
    }
  });

  const inTurn: Conversations = {
    "between two turns": [
      [user("a"), assistant("b"), system("French."), user("c")],
      [
        turn("user", text("a")),
        turn("assistant", text("b")),
        turn("user", marked("French."), text("c")),
      ],
    ],
    last: [[user("a"), system("French.")], [turn("user", text("a"), marked("French."))]],
    "with results, which the interface wants first": [
      [user("a"), calling, system("French."), result],
      [
        turn("user", text("a")),
        turn("assistant", toolUse),
        turn("user", toolResult, marked("French.")),
      ],
    ],
    "between two things that the assistant said": [
      [user("a"), assistant("b"), system("French."), assistant("c")],
      [
        turn("user", text("a")),
        turn("assistant", text("b")),
        turn("user", marked("French.")),
        turn("assistant", text("c")),
      ],
    ],
  };
  test.each(Object.entries(inTurn))(
    "are marked in the user's turn for a model that takes them nowhere else: %s",
    (_, [messages, sentMessages]) => {
      expect(sent(older, ...messages)).toMatchObject({ messages: sentMessages });
      expect(sent(older, ...messages)).not.toHaveProperty("system");
    },
  );

  const behind: Conversations = {
    "between two turns": [
      [user("a"), assistant("b"), system("French."), user("c"), assistant("d"), user("e")],
      [
        turn("user", text("a")),
        turn("assistant", text("b")),
        turn("user", text("c")),
        turn("system", text("French.")),
        turn("assistant", text("d")),
        turn("user", text("e")),
      ],
    ],
    "last, and several": [
      [user("a"), system("French."), system("Brief.")],
      [turn("user", text("a")), turn("system", text("French."), text("Brief."))],
    ],
    "in a loop of calls": [
      [user("a"), calling, system("French."), result],
      [
        turn("user", text("a")),
        turn("assistant", toolUse),
        turn("user", toolResult),
        turn("system", text("French.")),
      ],
    ],
    "where no user's turn is for them to follow": [
      [user("a"), assistant("b"), system("French.")],
      [turn("user", text("a")), turn("assistant", text("b")), turn("user", marked("French."))],
    ],
  };
  test.each(Object.entries(behind))(
    "stand behind the user's turn for a model that takes them there: %s",
    (_, [messages, sentMessages]) => {
      expect(sent(newer, ...messages)).toMatchObject({ messages: sentMessages });
      expect(sent(newer, ...messages)).not.toHaveProperty("system");
    },
  );

  test.each([
    ["claude-opus-4-8", "system"],
    ["anthropic/claude-opus-4.8-20260528", "system"],
    ["claude-opus-5", "system"],
    ["claude-opus-5-5", "system"],
    ["claude-fable-5-1", "system"],
    ["claude-mythos-5", "system"],
    ["claude-sonnet-5-5", "system"],
    ["claude-haiku-5-5-20261015", "system"],
    ["claude-opus-4-7", "user"],
    ["claude-sonnet-5", "user"],
    ["claude-haiku-5", "user"],
    ["claude-mythos-preview", "user"],
    ["claude-opus-4-20250514", "user"],
    ["glm-4.8", "user"],
  ])("are sent to %s with the role %s", (model, role) => {
    const { messages } = sent(model, user("a"), system("French."));
    expect((messages as { role: string }[]).at(-1)?.role).toBe(role);
  });

  test("keep cache_control", () => {
    const control = { cache_control: { type: "ephemeral" } };
    const late = { role: "system", content: [{ ...text("French."), ...control }] };
    expect(sent(older, user("a"), late)).toMatchObject({
      messages: [turn("user", text("a"), { ...marked("French."), ...control })],
    });
    expect(sent(newer, user("a"), late)).toMatchObject({
      messages: [turn("user", text("a")), turn("system", { ...text("French."), ...control })],
    });
  });

  test("do not end a loop of calls, and thinking stays on", () => {
    const thinking_blocks = [{ type: "thinking", thinking: "Hm.", signature: "sig" }];
    const messages = [user("a"), { ...calling, thinking_blocks }, result, system("French.")];
    const again = [...messages, calling, result];
    for (const model of [older, newer]) {
      const fields = { messages: again, reasoning_effort: "high" };
      expect(JSON.parse(sentFor(anthropic.chat, fields, { model }))).toHaveProperty("thinking");
    }
  });

  test("that are blank are left out", () => {
    for (const model of [older, newer]) {
      expect(sent(model, user("a"), system(" "))).toMatchObject({
        messages: [turn("user", text("a"))],
      });
    }
  });
});

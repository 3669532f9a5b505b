import { choice, completion, doneEvent, roleEvent, usageEvent } from "../provider/chatAnswers.ts";
import { chatEvent } from "../provider/upstreamText.ts";
import { halves, providerSecret, type ModelOutput, type Script } from "./script.ts";

/** The chat completions interface, in the form that OpenAI documents. */
export const chatScript: Script = {
  whole: (said) =>
    completion({ choices: [choice(messageOf(said), { finish_reason: finishOf(said) })] }),
  events: (said) => [
    roleEvent,
    ...deltasOf(said).map((delta) => chatEvent(delta)),
    chatEvent({}, finishOf(said)),
    usageEvent,
    doneEvent,
  ],
  beginning: (text) => [roleEvent, chatEvent({ content: text })],
  report: `data: ${JSON.stringify({ error: { message: providerSecret, type: "server_error" } })}\n\n`,
  failed: completion({ choices: [choice({}, { finish_reason: "error" })] }),
  failure: (text) => [roleEvent, chatEvent({ content: text }), chatEvent({}, "error"), doneEvent],
  bringsResult: ({ json }) =>
    (json["messages"] as { role: string }[]).some(({ role }) => role === "tool"),
  schemaOf: ({ json }) =>
    (json["response_format"] as { json_schema?: { schema?: unknown } } | undefined)?.json_schema
      ?.schema,
};

function finishOf(said: ModelOutput): string {
  if ("tool" in said) return "tool_calls";
  return said.isBounded ? "length" : "stop";
}

function messageOf(said: ModelOutput): object {
  if (!("tool" in said)) return { content: said.text };
  const called = { name: said.tool, arguments: said.input };
  return { content: null, tool_calls: [{ id: "call_1", type: "function", function: called }] };
}

function deltasOf(said: ModelOutput): object[] {
  if (!("tool" in said)) return halves(said.text).map((content) => ({ content }));
  const [begun, rest] = halves(said.input);
  const called = { name: said.tool, arguments: begun };
  return [
    { tool_calls: [{ index: 0, id: "call_1", type: "function", function: called }] },
    { tool_calls: [{ index: 0, function: { arguments: rest } }] },
  ];
}

import { message, messageEvent, messageUsage, stopEvent } from "../provider/anthropicAnswers.ts";
import { halves, providerSecret, type ModelOutput, type Script } from "./script.ts";

const failure = { type: "error", error: { type: "api_error", message: providerSecret } };
const report = messageEvent("error", { error: failure.error });

/** The Messages interface, in the form that Anthropic documents. */
export const messagesScript: Script = {
  whole: (said) => message({ content: [blockOf(said)], stop_reason: reasonOf(said) }),
  events: (said) => [
    ...begun(said),
    messageEvent("content_block_stop", { index: 0 }),
    messageEvent("message_delta", {
      delta: { stop_reason: reasonOf(said), stop_sequence: null },
      usage: { output_tokens: messageUsage.output_tokens },
    }),
    stopEvent,
  ],
  beginning: (text) => begun({ text }),
  report,
  failed: failure,
  failure: (text) => [...begun({ text }), report],
  bringsResult: ({ body }) => body.includes('"tool_result"'),
  schemaOf: ({ json }) =>
    (json["output_config"] as { format?: { schema?: unknown } } | undefined)?.format?.schema,
};

function reasonOf(said: ModelOutput): string {
  if ("tool" in said) return "tool_use";
  return said.isBounded ? "max_tokens" : "end_turn";
}

function blockOf(said: ModelOutput): Record<string, unknown> {
  if (!("tool" in said)) return { type: "text", text: said.text };
  return { type: "tool_use", id: "toolu_1", name: said.tool, input: JSON.parse(said.input) };
}

/** What a stream says before its block is complete. Its first event counts one output token, which has no meaning. */
function begun(said: ModelOutput): string[] {
  const usage = { ...messageUsage, output_tokens: 1 };
  const empty = "tool" in said ? { input: {} } : { text: "" };
  const deltas =
    "tool" in said
      ? halves(said.input).map((partial_json) => ({ type: "input_json_delta", partial_json }))
      : halves(said.text).map((text) => ({ type: "text_delta", text }));
  return [
    messageEvent("message_start", { message: message({ content: [], stop_reason: null, usage }) }),
    messageEvent("content_block_start", {
      index: 0,
      content_block: { ...blockOf(said), ...empty },
    }),
    messageEvent("ping"),
    ...deltas.map((delta) => messageEvent("content_block_delta", { index: 0, delta })),
  ];
}

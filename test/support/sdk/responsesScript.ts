import { responsesUsage } from "../provider/responsesAnswers.ts";
import { responseEvent, responseObject } from "../provider/upstreamText.ts";
import { halves, providerSecret, type ModelOutput, type Script } from "./script.ts";

type Event = readonly [type: string, fields: object];

/** The responses interface, in the form that OpenAI documents. Ids are new in each response. */
export const responsesScript: Script = {
  whole(said) {
    const id = newId();
    return responseOf(id, said, itemOf(id, said));
  },
  events(said) {
    const id = newId();
    const item = itemOf(id, said);
    const response = responseOf(id, said, item);
    return numbered([
      ...begun(id, said),
      ["response.output_item.done", { output_index: 0, item }],
      [`response.${statusOf(said)}`, { response }],
    ]);
  },
  beginning(text) {
    return numbered(begun(newId(), { text }));
  },
  report: responseEvent("error", {
    sequence_number: 4,
    code: "server_error",
    message: providerSecret,
    param: null,
  }),
  failed: failedResponse("00"),
  failure(text) {
    const id = newId();
    const failed: Event = ["response.failed", { response: failedResponse(id) }];
    return numbered([...begun(id, { text }), failed]);
  },
  bringsResult: ({ json }) =>
    Array.isArray(json["input"]) &&
    json["input"].some(({ type }: { type?: string }) => type === "function_call_output"),
  schemaOf: ({ json }) =>
    (json["text"] as { format?: { schema?: unknown } } | undefined)?.format?.schema,
};

function newId(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

function statusOf(said: ModelOutput): "completed" | "incomplete" {
  return "isBounded" in said ? "incomplete" : "completed";
}

function itemOf(id: string, said: ModelOutput): object {
  if ("tool" in said) {
    const { tool: name, input } = said;
    const called = { type: "function_call", call_id: `call_${id}`, name, arguments: input };
    return { id: `fc_${id}`, status: "completed", ...called };
  }
  const content = [{ type: "output_text", text: said.text, annotations: [], logprobs: [] }];
  return { id: `msg_${id}`, type: "message", status: statusOf(said), role: "assistant", content };
}

function responseOf(id: string, said: ModelOutput, item: object): Record<string, unknown> {
  const status = statusOf(said);
  return responseObject(`resp_${id}`, {
    status,
    error: null,
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    output: [item],
    usage: responsesUsage,
  });
}

function failedResponse(id: string): object {
  const error = { code: "server_error", message: providerSecret };
  return responseObject(`resp_${id}`, { status: "failed", error, incomplete_details: null });
}

/** What a stream says before its item is done. */
function begun(id: string, said: ModelOutput): Event[] {
  const item = { ...itemOf(id, said), status: "in_progress", content: [], arguments: "" };
  const head: Event[] = [
    ["response.created", { response: responseObject(`resp_${id}`) }],
    ["response.output_item.added", { output_index: 0, item }],
  ];
  if ("tool" in said) {
    const place = { item_id: `fc_${id}`, output_index: 0 };
    const type = "response.function_call_arguments.delta";
    return [...head, ...halves(said.input).map((delta): Event => [type, { ...place, delta }])];
  }
  const place = { item_id: `msg_${id}`, output_index: 0, content_index: 0 };
  const part = { type: "output_text", text: "", annotations: [], logprobs: [] };
  const type = "response.output_text.delta";
  return [
    ...head,
    ["response.content_part.added", { ...place, part }],
    ...halves(said.text).map((delta): Event => [type, { ...place, delta, logprobs: [] }]),
  ];
}

function numbered(events: readonly Event[]): string[] {
  return events.map(([type, fields], at) =>
    responseEvent(type, { sequence_number: at, ...fields }),
  );
}

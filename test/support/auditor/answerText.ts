import { messageTokens, streamedMessageUsage } from "./messagesTokens.ts";
import {
  countOf,
  larger,
  largest,
  membersOf,
  tokensOf,
  type Form,
  type Members,
  type Tokens,
} from "./tokens.ts";

/**
 * What the text of an answer amounts to, whichever of the interfaces it is of: `whole`: it reached its end and
 * succeeded; `failed`: it reports a failure; `cut`: neither; `unclear`: this reader cannot decide.
 */
export interface ReadAnswer {
  readonly outcome: "whole" | "failed" | "cut" | "unclear";
  /** The reported tokens; undefined: no possible figures; `unclear`: several reports that contradict each other. */
  readonly tokens: Tokens | "unclear" | undefined;
}

export const unclear: ReadAnswer = { outcome: "unclear", tokens: "unclear" };

/** The gateway can read a deeper nesting, but cannot write it again, so the result is not checked. */
const nestedTooDeep = /[[{]{1000}/;

/** Reads the body of a JSON answer or of an event stream, also one that was cut. */
export function readAnswer(body: string): ReadAnswer {
  if (nestedTooDeep.test(body)) return unclear;
  if (!/^\s*\{/.test(body)) return readStream(body.replaceAll(/\r\n?/g, "\n"));
  try {
    const answer = membersOf(JSON.parse(body));
    const { usage } = answer;
    const tokens = isMessage(answer)
      ? messageTokens(usage)
      : withSearches(tokensOf(usage, formOf(answer)), answer);
    return { outcome: outcomeOf(answer), tokens };
  } catch {
    return { outcome: "cut", tokens: undefined };
  }
}

/**
 * Searches of a provider's response are items of its output, unless OpenAI or xAI counts them. Those of OpenAI's older tool are
 * no searches here.
 */
function withSearches(tokens: Tokens | undefined, response: Members): Tokens | undefined {
  const { output, tools, tool_usage, usage } = response;
  if (tokens === undefined || !Array.isArray(output)) return tokens;
  const ofXai = membersOf(usage)["server_side_tool_usage_details"];
  if (ofXai !== undefined)
    return { ...tokens, searches: countOf(membersOf(ofXai)["web_search_calls"]) ?? 0n };
  const isOld = (tool: unknown) => membersOf(tool)["type"] === "web_search_preview";
  if (Array.isArray(tools) && tools.some(isOld)) return { ...tokens, searches: 0n };
  const counted = countOf(membersOf(membersOf(tool_usage)["web_search"])["num_requests"]) ?? 0n;
  if (counted > 0n) return { ...tokens, searches: counted };
  const searches = output.map(membersOf).filter(({ type, action, status }) => {
    const kind = membersOf(action)["type"] ?? "search";
    return type === "web_search_call" && kind === "search" && status !== "failed";
  });
  return { ...tokens, searches: larger(tokens.searches, BigInt(searches.length)) };
}

function isMessage({ type, content }: Members): boolean {
  return type === "message" && Array.isArray(content);
}

function formOf({ choices, data }: Members): Form {
  if (Array.isArray(choices)) return "chat";
  return Array.isArray(data) ? "embeddings" : "responses";
}

function outcomeOf(answer: Members): ReadAnswer["outcome"] {
  const { error, choices, data, output, status } = answer;
  if (error !== undefined && error !== null) return "failed";
  if (Array.isArray(data)) return "whole";
  if (isMessage(answer)) return "whole";
  if (Array.isArray(choices)) return choices.some(isRefused) ? "failed" : "whole";
  if (status === "failed") return "failed";
  return Array.isArray(output) && (status === "completed" || status === "incomplete")
    ? "whole"
    : "unclear";
}

/** DeepSeek's and Zhipu's finish reasons for a failure, in addition to the standard one. */
const failures = new Set<unknown>(["error", "insufficient_system_resource", "network_error"]);

function isRefused(choice: unknown): boolean {
  const { finish_reason: reason, error } = membersOf(choice);
  return failures.has(reason) || (typeof error === "object" && error !== null);
}

/** An incomplete event is ignored. */
function readStream(text: string): ReadAnswer {
  const whole = text.split("\n\n").slice(0, -1);
  const data = whole.map(dataOf).filter((one) => one !== "");
  try {
    const events = data.filter((one) => one !== "[DONE]").map((one) => membersOf(JSON.parse(one)));
    const outcomes = events.map(eventOutcome);
    return {
      // An answer that failed once stays failed.
      outcome: outcomes.find((one) => one === "failed") ?? outcomes.find(Boolean) ?? "cut",
      tokens: events.some(({ type }) => type === "message_start")
        ? messageTokens(streamedMessageUsage(events))
        : tokensOfEvents(events),
    };
  } catch {
    return unclear;
  }
}

/** The data of an event may have several lines: https://html.spec.whatwg.org/multipage/server-sent-events.html. */
function dataOf(event: string): string {
  return event
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).trimStart())
    .join("\n");
}

function eventOutcome(event: Members): "whole" | "failed" | undefined {
  const { type, error } = event;
  if (type === "error" || type === "response.failed") return "failed";
  if (type === "response.completed" || type === "response.incomplete") return "whole";
  if (error !== undefined && error !== null) return "failed";
  if (type === "message_delta" && isText(membersOf(event["delta"])["stop_reason"])) return "whole";
  if (choicesOf(event).some(isRefused)) return "failed";
  return choicesOf(event).some((choice) => isText(membersOf(choice)["finish_reason"]))
    ? "whole"
    : undefined;
}

function isText(value: unknown): boolean {
  return typeof value === "string";
}

/** A usage that content follows is an early one, which this reader does not evaluate. */
function tokensOfEvents(events: readonly Members[]): ReadAnswer["tokens"] {
  const reports = events.map((event) =>
    event["response"] === undefined
      ? { usage: event["usage"] ?? usageInChoice(event), form: "chat" as const, response: {} }
      : reportOf(membersOf(event["response"])),
  );
  const isReport = ({ usage }: (typeof reports)[number]): boolean =>
    usage !== undefined && usage !== null;
  const said = reports.filter(isReport);
  if (said.length === 0) return undefined;
  if (reports.findLastIndex(isReport) < events.findLastIndex((one) => choicesOf(one).length > 0))
    return "unclear";
  const possible = said.flatMap(
    ({ usage, form, response }) => withSearches(tokensOf(usage, form), response) ?? [],
  );
  if (possible.length === 0) return undefined;
  return possible.length === said.length ? largest(possible) : "unclear";
}

function reportOf(response: Members) {
  return { usage: response["usage"], form: "responses" as const, response };
}

/** Moonshot has it there. */
function usageInChoice(event: Members): unknown {
  const choices = choicesOf(event);
  return choices.length === 1 ? membersOf(choices[0])["usage"] : undefined;
}

function choicesOf({ choices }: Members): readonly unknown[] {
  return Array.isArray(choices) ? choices : [];
}

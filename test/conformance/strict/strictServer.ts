import type { Dialect, ExpectedAnswer } from "../../providers/conformance/dialect.ts";
import type { Section } from "../../support/gateway/gatewayConfig.ts";
import {
  stream,
  text,
  type ProviderAnswer,
  type ReceivedRequest,
} from "../../support/provider/scriptedProvider.ts";

export type Json = Readonly<Record<string, unknown>>;

/** A request as a server checks it. The path is without the version and the query: `/chat/completions`. */
export interface StrictRequest {
  readonly path: string;
  readonly body: Json;
  readonly headers: ReadonlyMap<string, string>;
}

/**
 * A small model of one real server: it refuses what the real one refuses, in its words and with its status. What no
 * document says that it refuses, it accepts.
 */
export interface StrictServer {
  readonly name: string;
  /** The lines of the provider that its page in docs/providers names, without address and key. */
  readonly provider: Section;
  /** The keys of the route, with the server's own name of the model. */
  readonly route: Section & { readonly model: string };
  /** The keys of the model besides its prices. */
  readonly settings: Section;
  /** How it answers on each of its paths. */
  dialect(path: string): Dialect;
  /** Throws `Refused` at the first fault. */
  check(request: StrictRequest): void;
  /** How it refuses a conversation that is longer than its context. */
  readonly overflow: Refused;
  /** The id of its call of this number. */
  callId(number: number): string;
}

/** An answer that is no success: its status and its body. */
export class Refused extends Error {
  readonly status: number;
  readonly body: Json;

  constructor(status: number, body: Json) {
    super(`${status} ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
  }
}

/** Answers what passes the checks; `says` gives the model's turn. `onRefusal` is told of the others. */
export function strictAnswer(
  server: StrictServer,
  says: (request: StrictRequest) => ExpectedAnswer | Refused,
  onRefusal: (refused: Refused, request: StrictRequest) => void = () => {},
): ProviderAnswer {
  let answered = 0;
  return (peer, received) => {
    const request = strictRequest(received);
    try {
      server.check(request);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      onRefusal(error, request);
      return refusal(error)(peer, received);
    }
    const said = says(request);
    if (said instanceof Refused) return refusal(said)(peer, received);
    const dialect = server.dialect(request.path);
    answered += 1;
    // A client takes answers of the same id for parts of one answer.
    const named = (whole: string) => whole.replace(/"(msg|resp)_1"/g, `"$1_${answered}"`);
    const answer = isStream(request)
      ? stream(named(dialect.stream(said)))
      : text(named(dialect.json(said)));
    return answer(peer, received);
  };
}

function strictRequest({ requestLine, json, headers }: ReceivedRequest): StrictRequest {
  const [, target = ""] = requestLine.split(" ");
  return { path: target.replace(/^\/v1(beta)?/, ""), body: json, headers: new Map(headers) };
}

function refusal({ status, body }: Refused): ProviderAnswer {
  return text(JSON.stringify(body), { status });
}

function isStream({ path, body }: StrictRequest): boolean {
  return body["stream"] === true || path.includes(":streamGenerateContent");
}

const usage = { prompt: 40, cached: 0, cacheWrite: 0, completion: 9, reasoning: 0 };

export function saysText(said: string): ExpectedAnswer {
  return { text: said, finish: "stop", usage };
}

/** Calls all of these tools at once. */
export function saysCalls(
  server: StrictServer,
  calls: readonly { readonly name: string; readonly input: object }[],
  first = 1,
): ExpectedAnswer {
  const toolCalls = calls.map(({ name, input }, at) => ({
    id: server.callId(first + at),
    name,
    arguments: JSON.stringify(input),
  }));
  return { text: "I look.", toolCalls, finish: "tool_calls", usage };
}

/** The names of the functions that a request offers, whatever its interface is. */
export function offeredTools({ body }: StrictRequest): readonly string[] {
  return objects(body["tools"]).flatMap((tool) => {
    const declared = objects(tool["functionDeclarations"]);
    if (declared.length > 0) return declared.map(({ name }) => word(name));
    const isFunction = [undefined, "custom", "function"].includes(tool["type"] as string);
    const named = object(tool["function"])["name"] ?? tool["name"];
    const isDescribed = "function" in tool || "input_schema" in tool || "parameters" in tool;
    return isFunction && isDescribed ? [word(named)] : [];
  });
}

/** The members of an object; none of another value. */
export function object(value: unknown): Json {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Json) : {};
}

/** The objects of a list; none of another value. */
export function objects(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.map(object) : [];
}

/** The keys of an object that are not in the list. */
export function unknownKeys(value: Json, known: readonly string[]): readonly string[] {
  return Object.keys(value).filter((key) => !known.includes(key));
}

/** The parts of a content, of which a text is one. */
export function partsOf(content: unknown): readonly Json[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : objects(content);
}

/** All schemas in a schema, itself first, each with its path. */
export function schemasIn(schema: unknown, path = "()"): readonly (readonly [Json, string])[] {
  const own = object(schema);
  const inside = (key: string) =>
    Object.entries(object(own[key])).flatMap(([name, one]) => schemasIn(one, `${path}.${name}`));
  const branches = ["anyOf", "oneOf", "allOf", "prefixItems"].flatMap((key) =>
    objects(own[key]).flatMap((one, at) => schemasIn(one, `${path}.${key}.${at}`)),
  );
  const items =
    "items" in own && !Array.isArray(own["items"]) ? schemasIn(own["items"], `${path}.items`) : [];
  return [
    [own, path],
    ...inside("properties"),
    ...inside("$defs"),
    ...inside("definitions"),
    ...branches,
    ...items,
  ];
}

/** A value as the servers name it in their words. */
export function word(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined");
}

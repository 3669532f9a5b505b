import { differences, type ApiDescription } from "../gateway/apiDescription.ts";
import { chunksOf } from "../gateway/chatCalls.ts";
import type { RawAnswer } from "../world/answerReader.ts";

/** What an answer may be: of this operation, if known, and with one of these statuses. */
export interface Expectation {
  readonly operation: string | undefined;
  readonly statuses: readonly number[];
  readonly isHead: boolean;
}

/** Answers of Bun itself: malformed request, too large a head, another version. */
const bareStatuses = [400, 431, 505];

/** Every status of a healthy gateway with healthy providers. */
const anyStatus = [200, 400, 401, 402, 404, 429];

const errorSchemas: Readonly<Record<number, string>> = {
  400: "InvalidRequestError",
  401: "AuthError",
  402: "BillingError",
  404: "InvalidRequestError",
  429: "RateLimitError",
};

/** The server itself refused: no header of ours, and no body. */
export function isBare({ headers }: RawAnswer): boolean {
  return !headers.has("x-request-id");
}

/** Checks answers against the API's own description. */
export class Judge {
  readonly #description: ApiDescription;
  readonly #ids = new Set<string>();

  constructor(description: ApiDescription) {
    this.#description = description;
  }

  /** The problems of an answer to a valid request. */
  problemsOfValid(answer: RawAnswer, expected: Expectation): readonly string[] {
    if (isBare(answer)) return [`a bare ${answer.status} to a sound request`];
    if (!expected.statuses.includes(answer.status))
      return [`${answer.status} instead of ${expected.statuses.join()}: ${textOf(answer)}`];
    return [
      ...this.ofHeaders(answer),
      ...(expected.isHead ? ofHead(answer) : this.#ofBody(answer, expected.operation)),
    ];
  }

  /** The problems of an answer to bytes whose meaning is unknown. */
  problemsOfMalformed(answer: RawAnswer, isHead = false): readonly string[] {
    if (!isBare(answer))
      return this.problemsOfValid(answer, { operation: undefined, statuses: anyStatus, isHead });
    const isAllowed = bareStatuses.includes(answer.status) && answer.body.length === 0;
    return isAllowed ? [] : [`neither a bare refusal nor ours: ${answer.status} ${textOf(answer)}`];
  }

  /** The problems of the headers of the gateway's answers. */
  ofHeaders({ status, headers }: RawAnswer): readonly string[] {
    const id = headers.get("x-request-id") ?? "";
    const isNew = !this.#ids.has(id);
    this.#ids.add(id);
    const type = headers.get("content-type") ?? "none";
    const rules: readonly (readonly [boolean, string])[] = [
      [/^req_[0-9a-z]{20}$/.test(id) && isNew, `x-request-id is ${id}`],
      [headers.get("cache-control") === "no-store", "cache-control is not no-store"],
      [headers.get("vary") === "authorization, x-api-key", "vary is wrong"],
      [type === "application/json" || (status === 200 && isStream(headers)), `type is ${type}`],
    ];
    return rules.flatMap(([isKept, problem]) => (isKept ? [] : [problem]));
  }

  #ofBody(answer: RawAnswer, operation: string | undefined): readonly string[] {
    const { status, headers, body } = answer;
    const text = body.toString();
    if (isStream(headers)) return ofStream(text);
    try {
      const reply = { status, headers, text, body: JSON.parse(text), id: "" };
      const schema = errorSchemas[status];
      if (operation !== undefined) return differences(this.#description, operation, reply, false);
      return schema === undefined ? [] : this.#description.complaints(schema, reply.body);
    } catch {
      return [`no JSON: ${textOf(answer)}`];
    }
  }
}

export function isStream(headers: Headers): boolean {
  return headers.get("content-type") === "text/event-stream";
}

function ofHead(answer: RawAnswer): readonly string[] {
  const length = Number(answer.headers.get("content-length") ?? 0);
  return length > 0 ? [] : [`a HEAD without the length of its GET: ${answer.status}`];
}

/** The provider ends every stream properly, so each must end properly for the client. */
function ofStream(text: string): readonly string[] {
  if (text.startsWith("event: response.created\n"))
    return /\n\nevent: response\.completed\ndata: \{.*\}\n\n$/.test(text)
      ? []
      : [`no end: ${text}`];
  try {
    const chunks = chunksOf({ text });
    return chunks.some((chunk) => "error" in chunk) ? [`a failure in a stream: ${text}`] : [];
  } catch (error) {
    return [String(error)];
  }
}

function textOf({ body }: RawAnswer): string {
  return JSON.stringify(body.toString("latin1", 0, 200));
}

import { createSseSplitter } from "../lib/sse.ts";
import { words } from "./language.ts";

/** A call that did not succeed. `message` is for the reader: the words of the server where it sent any. */
export class ApiFailure extends Error {
  override readonly name = "ApiFailure";
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** The `code` of the error object. */
  readonly code: string | undefined;
  /** Seconds of the header `retry-after`. */
  readonly retryAfter: number | undefined;
  /** All fields of the error object, such as `required_rub`. */
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    message: string,
    more: { code?: string; retryAfter?: number; fields?: Readonly<Record<string, unknown>> } = {},
  ) {
    super(message);
    this.status = status;
    this.code = more.code;
    this.retryAfter = more.retryAfter;
    this.fields = more.fields ?? {};
  }
}

/** Values of a query. Undefined, null and an empty text are left out. */
export type Query = Readonly<Record<string, string | number | undefined | null>>;

/**
 * Calls of the API beside the page. Paths begin with a slash. Each rejects with ApiFailure, or with the reason of `signal` if that
 * aborts. The type of an answer is what the caller says: the contract has the types.
 */
export interface Api {
  get<Answer>(path: string, query?: Query, signal?: AbortSignal): Promise<Answer>;
  post<Answer>(path: string, body: unknown, signal?: AbortSignal): Promise<Answer>;
  /**
   * The events of an answer of type `text/event-stream`, of a POST; without a body, of a GET. A loop that ends early closes
   * the connection. `onHead` gets the headers of the answer.
   */
  events(
    path: string,
    body: unknown,
    signal?: AbortSignal,
    onHead?: (headers: Headers) => void,
  ): AsyncGenerator<ApiEvent, void>;
}

/** `event` is `message` if the server names none. */
export interface ApiEvent {
  readonly event: string;
  readonly data: string;
  /** The data parsed; undefined if they are no JSON, such as `[DONE]`. */
  json(): unknown;
}

export interface ApiOptions {
  /** Headers of each call, such as the authorization. Read at each call. */
  readonly headers?: () => Readonly<Record<string, string>>;
  /** Called for each failure, such as to show the login after a 401. */
  readonly onFailure?: (failure: ApiFailure) => void;
}

/** The largest event that is read. The gateway sends no larger one. */
const EVENT_BYTES_MAX = 16 * 1024 * 1024;

/** Makes the calls of a page. Nothing is logged or stored. */
export function createApi({ headers = () => ({}), onFailure }: ApiOptions = {}): Api {
  const failed = (failure: ApiFailure): ApiFailure => {
    onFailure?.(failure);
    return failure;
  };

  const call = async (path: string, init: RequestInit): Promise<Response> => {
    let response: Response;
    try {
      // Relative to the page, which a proxy may serve below a path.
      response = await fetch(`.${path}`, { cache: "no-store", ...init });
    } catch (error) {
      if (init.signal?.aborted === true) throw error;
      throw failed(new ApiFailure(0, words.noConnection));
    }
    if (!response.ok) throw failed(await failureOf(response));
    return response;
  };
  const posted = (body: unknown, signal: AbortSignal | undefined): RequestInit => ({
    method: "POST",
    headers: { "content-type": "application/json", ...headers() },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
  const read = async <Answer>(path: string, init: RequestInit): Promise<Answer> => {
    const response = await call(path, init);
    try {
      return (await response.json()) as Answer;
    } catch (error) {
      if (init.signal?.aborted === true) throw error;
      throw failed(new ApiFailure(response.status, words.badAnswer));
    }
  };

  return {
    get: (path, query = {}, signal) =>
      read(path + queryText(query), { headers: headers(), ...(signal && { signal }) }),
    post: (path, body, signal) => read(path, posted(body, signal)),
    async *events(path, body, signal, onHead) {
      const read = { headers: headers(), ...(signal && { signal }) };
      const response = await call(path, body === undefined ? read : posted(body, signal));
      onHead?.(response.headers);
      if (response.body === null) return;
      const splitter = createSseSplitter({ eventBytesMax: EVENT_BYTES_MAX });
      const reader = response.body.getReader();
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return;
          for (const { event = "message", lenientData } of splitter.push(value)) {
            if (lenientData !== undefined)
              yield { event, data: lenientData, json: () => parsed(lenientData) };
          }
        }
      } catch (error) {
        if (signal?.aborted === true || error instanceof ApiFailure) throw error;
        throw failed(new ApiFailure(0, words.noConnection));
      } finally {
        await reader.cancel().catch(() => undefined);
      }
    },
  };
}

/** What to show for anything that was thrown. */
export function failureFrom(error: unknown): ApiFailure {
  return error instanceof ApiFailure ? error : new ApiFailure(0, words.badAnswer);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function queryText(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === null || value === "" ? [] : [[name, String(value)]],
  );
  return given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`;
}

async function failureOf(response: Response): Promise<ApiFailure> {
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retryAfter = Number.isFinite(seconds) ? { retryAfter: seconds } : {};
  const body = (await response.json().catch(() => undefined)) as
    | { error?: Readonly<Record<string, unknown>> }
    | undefined;
  const fields = body?.error ?? {};
  const { message, code } = fields;
  return new ApiFailure(
    response.status,
    typeof message === "string" ? message : `${words.badAnswer} (HTTP ${response.status})`,
    { fields, ...retryAfter, ...(typeof code === "string" && { code }) },
  );
}

import { readFields, DemoError } from "./request.ts";
import { answerChat } from "./chat.ts";
import { answerResponses } from "./responses.ts";

export interface DemoProviderOptions {
  /** 0, the default, takes any that is free. */
  readonly port?: number;
  /** Where to listen; the default is 127.0.0.1, which only this machine reaches. */
  readonly hostname?: string;
  /** The time before each word of a stream. The default is 20 ms. */
  readonly wordDelayMs?: number;
}

/** A demo provider that is listening. */
export interface DemoProvider {
  /** What a provider's `base_url` in a config is: `http://127.0.0.1:PORT/v1`. */
  readonly url: string;
  /** Stops listening and cuts open streams; done when the port is free. */
  stop(): Promise<void>;
}

const WORD_DELAY_DEFAULT_MS = 20;
const BODY_BYTES_MAX = 64 * 1024 * 1024;
const IDLE_TIMEOUT_SECONDS = 255; // The longest that Bun knows: a stream with long delays is quiet, not dead.
const MODELS = ["demo-large", "demo-small"];
const MODELS_SINCE = 1_767_225_600; // The first second of 2026, so that the list is the same each time.

/**
 * Starts a small server that speaks the chat completions, responses and models interface of OpenAI, in JSON and SSE,
 * over real HTTP. It says the same to the same request, whatever the model is called, and counts tokens as if they
 * cost something. Throws when the port is taken.
 */
export function startDemoProvider(options: DemoProviderOptions = {}): DemoProvider {
  const server = Bun.serve({
    hostname: options.hostname ?? "127.0.0.1",
    port: options.port ?? 0,
    // Outside development Bun shares a port that is taken, and two servers answer by turns.
    reusePort: false,
    idleTimeout: IDLE_TIMEOUT_SECONDS,
    maxRequestBodySize: BODY_BYTES_MAX,
    development: false, // Or a failure would be answered with a page for a browser.
    fetch: (request) => answer(request, options),
  });
  return {
    url: new URL("/v1", server.url).href,
    stop: () => server.stop(true),
  };
}

async function answer(request: Request, options: DemoProviderOptions): Promise<Response> {
  try {
    return await route(request, options.wordDelayMs ?? WORD_DELAY_DEFAULT_MS);
  } catch (error) {
    if (error instanceof DemoError) return error.toResponse();
    throw error;
  }
}

async function route(request: Request, wordDelayMs: number): Promise<Response> {
  const { pathname } = new URL(request.url);
  switch (pathname) {
    case "/v1/chat/completions":
      checkMethod(request, "POST", pathname);
      return answerChat(await readFields(request), wordDelayMs);
    case "/v1/responses":
      checkMethod(request, "POST", pathname);
      return answerResponses(await readFields(request), wordDelayMs);
    case "/v1/models":
      checkMethod(request, "GET", pathname);
      return Response.json({ object: "list", data: MODELS.map(modelEntry) });
    default:
      throw new DemoError(404, `Invalid URL (${request.method} ${pathname})`);
  }
}

function checkMethod(request: Request, method: string, pathname: string): void {
  if (request.method !== method)
    throw new DemoError(405, `Invalid method for URL (${request.method} ${pathname})`);
}

function modelEntry(id: string): object {
  return { id, object: "model", created: MODELS_SINCE, owned_by: "demo" };
}

import { readFields, DemoError } from "./request.ts";
import { answerChat } from "./chat.ts";
import { answerEmbeddings } from "./embeddings.ts";
import { answerResponses } from "./responses.ts";

export interface DemoProviderOptions {
  /** Default: 0, any free port. */
  readonly port?: number;
  /** Default: 127.0.0.1. */
  readonly hostname?: string;
  /** The time before each word of a stream. Default: 20 ms. */
  readonly wordDelayMs?: number;
}

/** A running demo provider. */
export interface DemoProvider {
  /** The `base_url` for a config: `http://127.0.0.1:PORT/v1`. */
  readonly url: string;
  /** Stops listening and cuts open streams. Resolves when the port is free. */
  stop(): Promise<void>;
}

const WORD_DELAY_DEFAULT_MS = 20;
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Bun's maximum, for streams with long delays. */
const IDLE_TIMEOUT_S = 255;
const MODELS = ["demo-large", "demo-small", "demo-vectors"];
/** The first second of 2026. */
const MODELS_CREATED_S = 1_767_225_600;

/**
 * Starts a server with OpenAI's chat completions, responses, embeddings and models interfaces, in JSON and SSE. Equal
 * requests get equal answers, whatever the model is. Throws if the port is in use.
 */
export function startDemoProvider(options: DemoProviderOptions = {}): DemoProvider {
  const server = Bun.serve({
    hostname: options.hostname ?? "127.0.0.1",
    port: options.port ?? 0,
    // Otherwise Bun in production mode shares a port that is in use.
    reusePort: false,
    idleTimeout: IDLE_TIMEOUT_S,
    maxRequestBodySize: BODY_BYTES_MAX,
    // In development mode errors are answered with an HTML page.
    development: false,
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
  const target = `${request.method} ${new URL(request.url).pathname}`;
  switch (target) {
    case "POST /v1/chat/completions":
      return answerChat(await readFields(request), wordDelayMs);
    case "POST /v1/responses":
      return answerResponses(await readFields(request), wordDelayMs);
    case "POST /v1/embeddings":
      return answerEmbeddings(await readFields(request));
    case "GET /v1/models":
      return Response.json({ object: "list", data: MODELS.map(modelEntry) });
    default:
      throw new DemoError(404, `Invalid URL (${target})`);
  }
}

function modelEntry(id: string): object {
  return { id, object: "model", created: MODELS_CREATED_S, owned_by: "demo" };
}

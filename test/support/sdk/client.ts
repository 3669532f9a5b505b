/** One call, as any of the SDKs is to make it. */
export interface Call {
  /** Of the gateway, with its `/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** What the SDK is to reach the gateway with. */
  readonly fetch: typeof fetch;
  readonly model: string;
  /** Sets the client's `refusedField`. */
  readonly asksForRefused?: true;
  readonly signal?: AbortSignal;
}

/** The options of a call that the official client takes beside the body, and LangChain after it. */
export function optionsOf({ signal }: Call): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

/** What an SDK tells of an answer that it takes for whole. */
export interface SdkResult {
  readonly text: string;
  /** `cached` is a part of `prompt`. */
  readonly usage: { readonly prompt: number; readonly completion: number; readonly cached: number };
  /** Why the answer ended, in the SDK's own word. */
  readonly finish: string;
}

/** What an SDK says of an error; the status is undefined where it names none. */
export interface SdkError {
  readonly status: number | undefined;
  readonly message: string;
}

/** The ways to ask: for a whole answer, or for a stream whose texts go to `heard` as they come. */
export type Way = "in JSON" | "as a stream";

/** An SDK on one of its ways to the gateway. What it throws is its own. Nothing is tried again. */
export interface SdkClient {
  readonly name: string;
  readonly endpoint: "chat" | "responses" | "messages";
  /** A field of the request that the gateway refuses. */
  readonly refusedField: "service_tier priority" | "inference_geo";
  /** What it calls an answer that was bounded. */
  readonly boundedFinish: string;
  ask(call: Call): Promise<SdkResult>;
  stream(call: Call, heard: (text: string) => void): Promise<SdkResult>;
  /** Offers the tool of `tool.ts`, runs it with what the model gives it, and goes on to the model's last answer. */
  useTool(call: Call, way: Way, run: (input: unknown) => string): Promise<SdkResult>;
  /** Asks for an object of the schema in `tool.ts`; returns it parsed. */
  askForObject(call: Call): Promise<unknown>;
  errorOf(error: unknown): SdkError;
}

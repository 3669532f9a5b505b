import type { ReceivedRequest } from "../provider/scriptedProvider.ts";

/** What the model says: a text, which may be cut by the bound of its tokens, or a call of the tool. */
export type ModelOutput =
  | { readonly text: string; readonly isBounded?: true }
  | { readonly tool: string; readonly input: string };

/** How one of the interfaces writes what a model says. Events are whole, each with its blank line. */
export interface Script {
  /** The body of a JSON answer. */
  whole(said: ModelOutput): object;
  /** The events of a stream that ends well. */
  events(said: ModelOutput): readonly string[];
  /** The first events of a stream that says this text and more. */
  beginning(text: string): readonly string[];
  /** The event with which a provider reports a failure in a stream. */
  readonly report: string;
  /** The body of a JSON answer that says of itself that it failed. */
  readonly failed: object;
  /** The events of a stream that says this text, and then ends as failed. */
  failure(text: string): readonly string[];
  /** Whether a request brings the result of a tool that was called. */
  bringsResult(request: ReceivedRequest): boolean;
  /** The schema that the answer is to have, as it is asked for. */
  schemaOf(request: ReceivedRequest): unknown;
}

/** A text of a provider's error that no client may see. */
export const providerSecret = "secret words of the provider";

/** A text in two pieces, as a model says it. */
export function halves(text: string): [string, string] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)];
}

/** A tool that is offered to a model, and how a call of it comes back. */
export const tool = {
  name: "weather",
  description: "The weather in a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
} as const;
export const toolInput = { city: "Kazan" };
export const toolOutput = "21 degrees";

/** What an answer is to look like, and one that does. */
export const objectSchema = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "integer" } },
  required: ["city", "degrees"],
  additionalProperties: false,
} as const;
export const object = { city: "Kazan", degrees: 21 };

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

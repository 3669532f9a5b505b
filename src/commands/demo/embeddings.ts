import type { JsonFields } from "../../lib/json.ts";
import { countTokens } from "./answer.ts";
import { DemoError, readCount, readModel } from "./request.ts";

const DIMENSIONS = 64;
const DIMENSIONS_MAX = 4096;

/** Answers POST /v1/embeddings. Equal inputs get equal vectors, and texts with the same words get similar ones. */
export function answerEmbeddings(fields: JsonFields): Response {
  const model = readModel(fields);
  const dimensions = readCount(fields, "dimensions", DIMENSIONS_MAX) ?? DIMENSIONS;
  const inputs = readInputs(fields);
  const data = inputs.map((input, index) => {
    const vector = vectorOf(input, dimensions);
    const isBase64 = fields["encoding_format"] === "base64";
    return { object: "embedding", index, embedding: isBase64 ? base64Of(vector) : [...vector] };
  });
  const tokens = inputs.reduce((sum, input) => sum + tokensOf(input), 0);
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return Response.json({ object: "list", data, model, usage });
}

type Input = string | readonly number[];

/** Throws DemoError for an input that is neither text nor tokens. */
function readInputs({ input }: JsonFields): readonly Input[] {
  if (isInput(input)) return [input];
  if (Array.isArray(input) && input.length > 0 && input.every(isInput)) return input;
  throw new DemoError(
    400,
    "Invalid 'input': expected a text, tokens, or an array of them.",
    "input",
  );
}

function isInput(value: unknown): value is Input {
  if (typeof value === "string") return value !== "";
  return Array.isArray(value) && value.length > 0 && value.every(Number.isInteger);
}

function tokensOf(input: Input): number {
  return typeof input === "string" ? countTokens(input) : input.length;
}

/** Each word or token adds to one number, which its hash selects. The vector has the length 1. */
function vectorOf(input: Input, dimensions: number): Float32Array {
  const parts = typeof input === "string" ? input.toLowerCase().split(/\s+/u) : input.map(String);
  const vector = new Float32Array(dimensions);
  for (const part of parts) {
    const at = Bun.hash.crc32(part) % dimensions;
    vector[at] = (vector[at] ?? 0) + 1;
  }
  const length = Math.hypot(...vector);
  return vector.map((number) => number / length);
}

function base64Of(vector: Float32Array): string {
  return Buffer.from(vector.buffer).toString("base64");
}

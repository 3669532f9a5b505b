import type { EmbeddingsFigures } from "../../contract/embeddings.ts";
import { readEmbeddingsUsage, type Usage } from "../../contract/usage.ts";
import { fieldsOf, type JsonFields, isGiven } from "../../lib/json.ts";
import {
  AnswerError,
  decodeAnswer,
  UnsupportedRequestError,
  type EmbeddingsCall,
  type EmbeddingsInterface,
  type EncodedRequest,
} from "../provider.ts";
import { parseAnswer } from "../reportedFailure.ts";

/** The batchEmbedContents interface of the Gemini API: https://ai.google.dev/api/embeddings#method:-models.batchembedcontents */
export const geminiEmbeddings: EmbeddingsInterface = {
  refuseUnsupported,
  encode,
  read(received, request) {
    const answer = parseAnswer(decodeAnswer(received));
    const vectors = vectorsOf(answer["embeddings"], request.inputSizes.length);
    return {
      usage: readUsage(answer["usageMetadata"]),
      vectors: request.encodingFormat === "base64" ? vectors.map(base64Of) : vectors,
    };
  },
  usage: { name: "usageMetadata", read: readUsage },
};

/** The native field of each input that a caller may set. */
const TASK_FIELD = "taskType";

/** The fields with a counterpart, and `user`, which is left out as in a chat. */
const KNOWN_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "input",
  "dimensions",
  "encoding_format",
  "user",
  "stream",
  TASK_FIELD,
]);

/** A field that is left out silently could change the vectors, so any other field is refused. */
function refuseUnsupported({ areTexts, fields }: EmbeddingsFigures): void {
  if (!areTexts) throw new UnsupportedRequestError("input must be text for this model");
  const task = fields[TASK_FIELD];
  if (isGiven(task) && typeof task !== "string")
    throw new UnsupportedRequestError(`${TASK_FIELD} must be a string`);
  for (const name in fields) {
    if (!KNOWN_FIELDS.has(name) && isGiven(fields[name]))
      throw new UnsupportedRequestError(`${name} is not supported`);
  }
}

function encode({ request, model }: EmbeddingsCall): EncodedRequest {
  refuseUnsupported(request);
  const { texts, dimensions, fields } = request;
  const settings: JsonFields = {
    model: modelName(model),
    outputDimensionality: dimensions,
    taskType: fields[TASK_FIELD] ?? undefined,
  };
  const requests = texts.map((text) => Object.assign({ content: { parts: [{ text }] } }, settings));
  return {
    path: `/${modelPath(model)}:batchEmbedContents`,
    body: JSON.stringify({ requests }),
  };
}

/** Throws AnswerError if there is not one vector for each input. */
function vectorsOf(embeddings: unknown, count: number): number[][] {
  if (!Array.isArray(embeddings) || embeddings.length !== count)
    throw new AnswerError("the answer does not have one vector for each input");
  return embeddings.map((embedding) => {
    const { values } = fieldsOf(embedding);
    if (!Array.isArray(values) || values.length === 0 || !values.every(Number.isFinite))
      throw new AnswerError("a vector is not a list of numbers");
    return values as number[];
  });
}

/** Bun runs only on processors that store the lowest byte first, so the array has OpenAI's order of bytes. */
function base64Of(vector: readonly number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString("base64");
}

/** Older versions of the interface report no usage. */
function readUsage(metadata: unknown): Usage | undefined {
  return readEmbeddingsUsage({ prompt_tokens: fieldsOf(metadata)["promptTokenCount"] });
}

/**
 * A model as Google names it: with `models/`, unless it is the name of a tuned model, as Google's own clients do.
 */
function modelName(model: string): string {
  const { collection, name } = partsOf(model);
  return collection + name;
}

/**
 * The model as the path of a URL. The name is one escaped segment, so that it cannot lead to another method or host.
 */
export function modelPath(model: string): string {
  const { collection, name } = partsOf(model);
  return collection + encodeURIComponent(name);
}

function partsOf(model: string): { readonly collection: string; readonly name: string } {
  const [, collection = "models/", name = ""] =
    /^(models\/|tunedModels\/)?(.*)$/s.exec(model) ?? [];
  return { collection, name };
}

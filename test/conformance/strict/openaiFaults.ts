import { object, objects, Refused, schemasIn, type Json, word } from "./strictServer.ts";

/** OpenAI's form of an error. */
export function openaiFault(
  message: string,
  param: string | null = null,
  code: string | null = null,
): Refused {
  return new Refused(400, { error: { message, type: "invalid_request_error", param, code } });
}

export function unknownParameter(name: string): Refused {
  return openaiFault(`Unknown parameter: '${name}'.`, name, "unknown_parameter");
}

export function unsupportedParameter(name: string, instead = ""): Refused {
  const message = `Unsupported parameter: '${name}' is not supported with this model.${instead}`;
  return openaiFault(message, name, "unsupported_parameter");
}

/** The efforts of gpt-5.6: https://developers.openai.com/api/docs/guides/reasoning */
const efforts = ["none", "low", "medium", "high", "xhigh", "max"];

export function checkEffort(effort: unknown, name: string): void {
  if (effort === undefined || effort === null || efforts.includes(effort as string)) return;
  const supported = efforts.map((one) => `'${one}'`).join(", ");
  const message = `Unsupported value: '${word(effort)}' is not supported with the 'gpt-5.6-terra' model. Supported values are: ${supported}.`;
  throw openaiFault(message, name, "unsupported_value");
}

const NAME_LENGTH_MAX = 64;

/** A function's name, its parameters, and whether the model is held to them. */
export function checkFunction(fn: Json, path: string, isStrict: boolean): void {
  const name = word(fn["name"]);
  const at = `${path}.name`;
  if (name.length > NAME_LENGTH_MAX) {
    const message = `Invalid '${at}': string too long. Expected a string with maximum length 64, but got a string with length ${name.length} instead.`;
    throw openaiFault(message, at, "string_above_max_length");
  }
  if (!/^[a-zA-Z0-9_-]+$/.test(name)) {
    const message = `Invalid '${at}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`;
    throw openaiFault(message, at, "invalid_value");
  }
  const { parameters } = fn;
  if (parameters === undefined || parameters === null) return;
  const fault = schemaFault(object(parameters), isStrict);
  if (fault !== undefined) {
    const message = `Invalid schema for function '${name}': ${fault}`;
    throw openaiFault(message, `${path}.parameters`, "invalid_function_parameters");
  }
}

/** The schema of an answer. */
export function checkFormat({ name, schema, strict }: Json, path: string): void {
  if (!/^[a-zA-Z0-9_-]{1,64}$/.test(word(name))) {
    const message = `Invalid '${path}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`;
    throw openaiFault(message, `${path}.name`, "invalid_value");
  }
  const fault = schemaFault(object(schema), strict === true);
  if (fault !== undefined) {
    throw openaiFault(`Invalid schema for response_format '${word(name)}': ${fault}`, path);
  }
}

const notAtTheTop = ["oneOf", "anyOf", "allOf", "enum", "not"];
/** https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas */
const notStrict = ["allOf", "not", "oneOf", "dependentRequired", "if", "patternProperties"];

/** What is wrong with a schema, in OpenAI's words. */
function schemaFault(schema: Json, isStrict: boolean): string | undefined {
  if (schema["type"] !== "object") {
    const type = typeof schema["type"] === "string" ? schema["type"] : "None";
    return `schema must be a JSON Schema of 'type: "object"', got 'type: "${type}"'.`;
  }
  if (!("properties" in schema)) return "In context=(), object schema missing properties.";
  if (notAtTheTop.some((key) => key in schema)) {
    return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.";
  }
  for (const [own, path] of schemasIn(schema)) {
    const fault = objectFault(own, isStrict) ?? arrayFault(own);
    if (fault !== undefined) return `In context=${path}, ${fault}`;
  }
  return undefined;
}

function objectFault(schema: Json, isStrict: boolean): string | undefined {
  if (isStrict) {
    const keyword = notStrict.find((key) => key in schema);
    if (keyword !== undefined) return `'${keyword}' is not permitted.`;
  }
  if (schema["type"] !== "object") return undefined;
  if (!("properties" in schema) && !("additionalProperties" in schema)) {
    return "object schema missing properties.";
  }
  if (!isStrict) return undefined;
  if (schema["additionalProperties"] !== false) {
    return "'additionalProperties' is required to be supplied and to be false.";
  }
  const required = (schema["required"] ?? []) as readonly unknown[];
  const missing = Object.keys(object(schema["properties"])).find((key) => !required.includes(key));
  return missing === undefined
    ? undefined
    : `'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`;
}

function arrayFault(schema: Json): string | undefined {
  return schema["type"] === "array" && !("items" in schema) && !("prefixItems" in schema)
    ? "array schema missing items."
    : undefined;
}

/** A bound above the model's own. */
export function checkBound(bound: unknown, name: string): void {
  if (typeof bound !== "number" || bound <= OUTPUT_TOKENS_MAX) return;
  const message = `max_tokens is too large: ${bound}. This model supports at most ${OUTPUT_TOKENS_MAX} completion tokens, whereas you provided ${bound}.`;
  throw openaiFault(message, name, "invalid_value");
}

export const OUTPUT_TOKENS_MAX = 64_000;

/** Pictures as data, in a type that the models see. */
export function checkPicture(url: unknown): void {
  const [, type] = /^data:([^;]*);base64,/.exec(word(url)) ?? [];
  if (type === undefined || /^image\/(png|jpeg|gif|webp)$/.test(type)) return;
  const message = `Invalid MIME type '${type}'. You uploaded an unsupported image. Please make sure your image has one of the following formats: ['png', 'jpeg', 'gif', 'webp'].`;
  throw openaiFault(message, null, "invalid_image_format");
}

/** At the top of a request with more than this number of tools. */
export function checkToolCount(tools: unknown): void {
  const { length } = objects(tools);
  if (length > 128) {
    throw openaiFault(
      `Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length ${length} instead.`,
      "tools",
      "array_above_max_length",
    );
  }
}

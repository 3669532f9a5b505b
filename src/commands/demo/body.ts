import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { Refusal } from "./refusal.ts";

/** Reads a request's body. Throws a Refusal when it is not a JSON object. */
export async function readFields(request: Request): Promise<JsonFields> {
  const text = await request.text();
  const fields = parse(text);
  if (!isJsonObject(fields))
    throw new Refusal(400, "The body of the request must be a JSON object.");
  return fields;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal(400, "We could not parse the JSON body of your request.", {}, { cause });
  }
}

/** The model asked for; any name will do. Throws a Refusal when there is none. */
export function readModel(fields: JsonFields): string {
  const model = fields["model"];
  if (model === undefined || model === null || model === "") {
    throw new Refusal(400, "you must provide a model parameter");
  }
  if (typeof model !== "string") throw wrongType("model", "a string");
  return model;
}

/** A whole number of at least 1, or undefined when absent or null. Throws a Refusal for anything else. */
export function readCount(
  fields: JsonFields,
  param: string,
  max = Number.MAX_SAFE_INTEGER,
): number | undefined {
  const value = fields[param];
  if (value === undefined || value === null) return undefined;
  if (!Number.isSafeInteger(value)) throw wrongType(param, "an integer");
  const count = Number(value);
  if (count < 1 || count > max) {
    const range = count < 1 ? "at least 1" : `at most ${max}`;
    throw new Refusal(400, `Invalid '${param}': it must be ${range}.`, {
      param,
      code: "integer_out_of_range",
    });
  }
  return count;
}

/** The refusal of a field that is missing. */
export function missing(param: string): Refusal {
  return new Refusal(400, `Missing required parameter: '${param}'.`, {
    param,
    code: "missing_required_parameter",
  });
}

/** The refusal of a field that holds the wrong kind of value. */
export function wrongType(param: string, wanted: string): Refusal {
  return new Refusal(400, `Invalid type for '${param}': expected ${wanted}.`, {
    param,
    code: "invalid_type",
  });
}

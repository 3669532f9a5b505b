import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import type { ChatTool } from "../chat/chatTools.ts";
import { mapSubschemas, parametersOf } from "../chat/toolSchemas.ts";
import { claudeSchema } from "./claudeSchema.ts";

/**
 * What all strict schemas of a request may have together. The provider refuses a request with more:
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs#schema-complexity-limits
 */
const TOOLS_MAX = 20;
const OPTIONAL_MAX = 24;
const UNIONS_MAX = 16;

/** A tool with its parameters as they are sent. */
export interface SentTool extends ChatTool {
  readonly parameters: JsonFields;
}

/**
 * The tools in their order. `strict` stays while the schemas of tools and answer together are within the provider's
 * limits. A tool beyond them is sent without it: the model still follows the schema, as a rule.
 */
export function sentTools(
  tools: readonly ChatTool[],
  answerSchema: JsonFields | undefined,
): readonly SentTool[] {
  const used = answerSchema === undefined ? { optional: 0, unions: 0 } : countsOf(answerSchema);
  let count = 0;
  return tools.map((tool) => {
    const parameters = parametersOf(tool.parameters);
    if (tool.strict !== true) return { ...tool, parameters };
    const reduced = claudeSchema(parameters);
    const { optional, unions, isRecursive } = countsOf(reduced);
    const fits =
      !isRecursive &&
      count < TOOLS_MAX &&
      used.optional + optional <= OPTIONAL_MAX &&
      used.unions + unions <= UNIONS_MAX;
    if (!fits) return { ...tool, parameters, strict: undefined };
    count += 1;
    used.optional += optional;
    used.unions += unions;
    return { ...tool, parameters: reduced };
  });
}

interface Counts {
  /** Properties that are not required. */
  optional: number;
  /** Schemas with variants or with several types. */
  unions: number;
  isRecursive: boolean;
}

/** Deeper schemas are not counted. */
const LEVELS_MAX = 100;

function countsOf(schema: JsonFields): Counts {
  const counts = { optional: 0, unions: 0 };
  const visit = (inner: unknown, level: number): void => {
    if (!isJsonObject(inner) || level > LEVELS_MAX) return;
    const { type, anyOf, properties, required } = inner;
    if (Array.isArray(type) || Array.isArray(anyOf)) counts.unions += 1;
    const names: ReadonlySet<unknown> = new Set(Array.isArray(required) ? required : []);
    for (const name in fieldsOf(properties)) if (!names.has(name)) counts.optional += 1;
    visitEach(inner, (one) => visit(one, level + 1));
  };
  visit(schema, 0);
  return { ...counts, isRecursive: isRecursive(schema) };
}

/** Whether a definition needs itself. */
function isRecursive(root: JsonFields): boolean {
  const definitions: Record<string, unknown> = {};
  for (const name of ["$defs", "definitions"]) {
    for (const [key, value] of Object.entries(fieldsOf(root[name]))) {
      definitions[`#/${name}/${key}`] = value;
    }
  }
  const done = new Set<string>();
  const open = new Set<string>();
  const recurs = (schema: unknown, level: number): boolean => {
    if (!isJsonObject(schema) || level > LEVELS_MAX) return false;
    const { $ref: reference } = schema;
    if (typeof reference === "string") {
      if (reference === "#" || open.has(reference)) return true;
      if (done.has(reference)) return false;
      open.add(reference);
      const found = recurs(definitions[reference], level + 1);
      open.delete(reference);
      done.add(reference);
      return found;
    }
    let found = false;
    visitEach(schema, (inner) => {
      found ||= recurs(inner, level + 1);
    });
    return found;
  };
  return recurs(root, 0);
}

function visitEach(schema: JsonFields, visit: (inner: unknown) => void): void {
  mapSubschemas(schema, (inner) => {
    visit(inner);
    return inner;
  });
}

import { anthropicFault } from "./anthropicFault.ts";
import { schemasIn, word } from "./strictServer.ts";

/** https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations */
const unsupported: Readonly<Record<string, readonly string[]>> = {
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  string: ["minLength", "maxLength"],
  array: ["maxItems", "uniqueItems"],
  object: ["minProperties", "maxProperties", "patternProperties", "propertyNames"],
};
const formats = "date-time time date duration email hostname uri ipv4 ipv6 uuid".split(" ");

/** A schema that an answer, or the input of a strict tool, is held to. */
export function checkAnthropicSchema(schema: unknown, at: string): void {
  for (const [own] of schemasIn(schema)) {
    const types = [own["type"]].flat().map(word);
    for (const type of types) {
      const words = (unsupported[type] ?? []).filter((key) => key in own);
      if (words.length > 0) {
        const what =
          words.length === 1 ? `property '${words[0]}' is` : `properties ${words.join(", ")} are`;
        throw anthropicFault(`${at}: For '${type}' type, ${what} not supported`);
      }
      if (type === "object" && own["additionalProperties"] !== false) {
        throw anthropicFault(
          `${at}: For 'object' type, 'additionalProperties' must be explicitly set to false`,
        );
      }
      const { minItems } = own;
      if (type === "array" && typeof minItems === "number" && minItems > 1) {
        throw anthropicFault(
          `${at}: For 'array' type, 'minItems' values other than 0 or 1 are not supported`,
        );
      }
      if (type === "string" && "format" in own && !formats.includes(word(own["format"]))) {
        throw anthropicFault(
          `${at}: For 'string' type, 'format' value '${word(own["format"])}' is not supported`,
        );
      }
    }
    const keyword = ["oneOf", "not", "if", "dependentRequired"].find((key) => key in own);
    if (keyword !== undefined)
      throw anthropicFault(`${at}: Schema type '${keyword}' is not supported`);
  }
}

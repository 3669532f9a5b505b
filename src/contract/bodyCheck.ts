import type { Static, TSchema } from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { lazy } from "../lib/lazy.ts";
import { invalidRequest } from "./errors.ts";
import { firstProblem } from "./humanError.ts";

/**
 * A check of request bodies: it returns the value that it was given, or throws ApiError 400 with the first problem in
 * words. It is compiled at its first call, because nothing happens at import time.
 */
export function bodyCheck<Schema extends TSchema>(
  schema: Schema,
): (value: unknown) => Static<Schema> {
  const compiled = lazy(() => TypeCompiler.Compile(schema));
  return (value) => {
    if (compiled().Check(value)) return value;
    throw invalidRequest(firstProblem(schema, value) ?? "body is not a valid request");
  };
}

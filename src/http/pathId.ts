import { Type } from "@sinclair/typebox";

/**
 * The path of a route whose last parameter may hold slashes. Elysia's `:id` ends at a slash, so the route is registered
 * with `*`. The type keeps the name, so that an Eden client has a parameter to call.
 */
export function withSlashes<Path extends string>(path: Path): Path {
  return path.replace(/:id$/, "*") as Path;
}

/** The declaration of that parameter: its schema, and the name that the handler finds it under. It is not decoded. */
export function idParameter(description: string) {
  return {
    params: Type.Object({ id: Type.String({ description }) }),
    transform: ({ params }: { params: Record<string, string> }): void => {
      params["id"] = params["*"] ?? "";
      delete params["*"];
    },
  };
}

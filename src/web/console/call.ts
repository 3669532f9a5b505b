import type { OperatorApi } from "../../contract/operator/api.ts";
import { api } from "./session.ts";

/** A route of the console's API. */
export type Route = keyof OperatorApi;
export type Input<Of extends Route> = OperatorApi[Of]["input"];
export type Answer<Of extends Route> = OperatorApi[Of]["answer"];

/** Calls an operation. The values that the path names are put into the path, the others into the query or the body. Empty texts are left out. */
export async function call<Of extends Route>(
  route: Of,
  input: Input<Of>,
  abort?: AbortSignal,
): Promise<Answer<Of>> {
  const [method, template = ""] = route.split(" ");
  const texts = new Map(Object.entries<string | number | undefined>({ ...input }));
  const path = template.replaceAll(/:(\w+)/g, (_, name: string) => {
    const text = String(texts.get(name));
    texts.delete(name);
    return encodeURIComponent(text);
  });
  const rest = Object.fromEntries([...texts].filter(([, text]) => Boolean(text)));
  return method === "GET" ? await api.get(path, rest, abort) : await api.post(path, rest);
}

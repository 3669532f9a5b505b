import { jsonOf, type Reply } from "./chatCalls.ts";
import { until } from "./until.ts";

/** A client under way; what it has of its answer can be waited for by the provider that sends it. */
export interface WaitingClient {
  /** Resolves when what has come holds this. */
  seen(part: string): Promise<void>;
  /** Resolves with the whole answer; rejects where its connection breaks. */
  readonly reply: Promise<Reply & { readonly bytes: Buffer }>;
}

/** Posts a body as JSON. */
export function openClient(url: string, key: string, body: object): WaitingClient {
  let text = "";
  const read = async (): Promise<Reply & { bytes: Buffer }> => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      redirect: "manual",
    });
    const decoder = new TextDecoder();
    const pieces: Uint8Array[] = [];
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      text += decoder.decode(piece, { stream: true });
    }
    const { status, headers } = response;
    const bytes = Buffer.concat(pieces);
    return { status, headers, text, bytes, body: jsonOf(text), id: idIn(headers) };
  };
  return {
    seen: (part) => until(`the client sees ${part}`, () => text.includes(part)),
    reply: read(),
  };
}

function idIn(headers: Headers): string {
  return headers.get("x-request-id") ?? "";
}

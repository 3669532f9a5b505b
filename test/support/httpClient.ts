import { ConnectionError } from "../../src/providers/http/client.ts";
import type { HttpExchange, HttpRequest, HttpResponse } from "../../src/providers/http/client.ts";

/** A small request; the tests say only what matters to them. */
export function request(parts: Partial<HttpRequest> = {}): HttpRequest {
  return { path: "/chat", headers: { "content-type": "application/json" }, body: "{}", ...parts };
}

export async function textOf(response: HttpResponse): Promise<string> {
  const pieces: Uint8Array[] = [];
  for (let piece = await response.read(); piece !== undefined; piece = await response.read()) {
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/** Status and body of a whole exchange. */
export async function answerOf(exchange: HttpExchange): Promise<string> {
  const response = await exchange.response;
  return `${response.status} ${await textOf(response)}`;
}

/** What the promise rejects with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("the promise did not reject");
}

/** The code of the ConnectionError that the promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<string> {
  const error = await rejectionOf(promise);
  return error instanceof ConnectionError ? error.code : `another error: ${String(error)}`;
}

/** A response with a content-length. */
export function ok(body: string, headers = ""): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`;
}

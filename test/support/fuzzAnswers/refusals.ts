import type { Chance } from "../seededRandom.ts";
import { upstreamKey } from "../gateway/gatewayUnderTest.ts";
import { responseEvent, responseObject } from "../provider/upstreamText.ts";
import type { Expected, Question } from "./answerCase.ts";

/** Texts of a provider that no client may see. */
export const secrets = [upstreamKey, "127.0.0.1", "org-Secret0123"] as const;

// 413 goes to the next route first: test/http/failures/circuitBreaker.test.ts.
const callerStatuses = [400, 409, 422];
const statuses = [
  ...callerStatuses,
  401,
  402,
  403,
  404,
  404,
  405,
  408,
  410,
  418,
  425,
  429,
  500,
  501,
  502,
  503,
  504,
  520,
  529,
] as const;

interface ExpectedError {
  readonly status: number;
  readonly text: string;
  readonly expected: Expected;
}

/** A refusal in one of the forms in which providers write them, full of secrets. */
export function drawRefusal({ endpoint, said }: Question, chance: Chance): ExpectedError {
  const status = chance.pick(statuses);
  const message = `${said.tag} is wrong, with ${secrets.join(" at http://")} ${"and more ".repeat(chance.below(100))}`;
  const forms = [
    { error: { message, type: "some_error", param: "messages", code: "some_code" } },
    { type: "error", error: { type: "invalid_request_error", message } },
    { error: { code: status, message, status: "INVALID_ARGUMENT", details: [{ x: 1 }] } },
    [{ error: { code: status, message, status: "INVALID_ARGUMENT" } }],
    { error: message },
    { detail: [{ loc: ["body", "messages"], msg: message }] },
  ];
  const isReadable = chance.chance(0.8);
  const text = isReadable ? JSON.stringify(chance.pick(forms)) : `<html>${message}</html>`;
  return { status, text, expected: expectedOf(status, endpoint, isReadable ? said.tag : "") };
}

/** An error where an answer belongs, as JSON or as an event. */
export function drawFailure({ route, endpoint, stream, number }: Question, chance: Chance): string {
  const error = { type: "server_error", code: "server_error", message: "of the provider" };
  if (endpoint === "responses" || route.api === "responses") {
    const response = responseObject(`resp_${number}`, { status: "failed", error });
    return stream ? responseEvent("response.failed", { response }) : JSON.stringify(response);
  }
  const json = JSON.stringify({ type: "error", error });
  if (!stream) return json;
  return chance.pick([`event: error\ndata: ${json}\n\n`, `data: ${json}\n\n`]);
}

function expectedOf(status: number, endpoint: Question["endpoint"], text: string): Expected {
  if (callerStatuses.includes(status)) return { kind: "refusal", status: 400, text };
  if (status === 404 && endpoint === "responses")
    return { kind: "refusal", status: 404, text: "resource not found" };
  return { kind: "failure" };
}

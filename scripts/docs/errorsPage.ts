import { ApiError, clientErrors, invalidRequest } from "../../src/contract/errors.ts";
import { messagesErrorBody } from "../../src/contract/messages/messagesAnswer.ts";
import { attemptOutcomes, upstreamFaults } from "../../src/providers/upstreamError.ts";
import { code, table } from "./markdown.ts";

const introduction = `Clients see these errors only. [The HTTP API](http/answers.md#errors) says which fields an error may have besides. A provider's words reach
a client only in a 400 or a 429, without its key and its address.`;

const outcomesIntroduction = `The log line \`attempt failed\`, the metric \`tollgate_attempts_total\` and \`tollgate requests show\` name the outcome of each attempt at a
provider. [When a provider fails](../concepts/failures.md) says what follows from each.`;

const faultsIntroduction = `A fault says who is responsible for a failed attempt, what is tried next, and what the health of the route learns.`;

const outcomes: Readonly<Record<string, string>> = {
  ok: "The attempt answered.",
  "status N":
    "The provider answered with this HTTP status. The metric groups rare statuses, such as `status 4xx`.",
  ...attemptOutcomes,
};

/** What clients see, and how attempts at providers end. */
export function errorsPage(): string {
  const rows = Object.values(clientErrors).map(({ status, message, when }) =>
    row(new ApiError(status, message), code(message), when),
  );
  const invalid = row(
    invalidRequest(""),
    "in words",
    "The request is at fault. The message names the first problem, or is the provider's where the provider refused the request.",
  );
  return [
    "# Errors",
    introduction,
    "## Errors of the API",
    table(["status", "type", "in Anthropic's form", "message", "when"], [invalid, ...rows]),
    "A 502 with `retry-after` has the type `overloaded_error` in Anthropic's form. A request for a WebSocket is a 426.",
    "## Outcomes of attempts",
    outcomesIntroduction,
    meanings("outcome", outcomes),
    "## Faults",
    faultsIntroduction,
    meanings("fault", upstreamFaults),
  ].join("\n\n");
}

function meanings(what: string, texts: Readonly<Record<string, string>>): string {
  return table(
    [what, "meaning"],
    Object.entries(texts).map(([name, meaning]) => [code(name), meaning]),
  );
}

function row(error: ApiError, message: string, when: string): string[] {
  const { type } = messagesErrorBody(error, "").error;
  return [String(error.status), code(error.type), code(type), message, when];
}

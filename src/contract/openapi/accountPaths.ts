import { USAGE_DAYS_DEFAULT, USAGE_DAYS_MAX, usageQueryGroupings } from "../usageQuery.ts";
import { errorsOf } from "./errorAnswers.ts";
import { answerToKey, pathId } from "./operationParts.ts";

/** GET /v1/account. */
export function getAccount(): object {
  return {
    operationId: "getAccount",
    tags: ["account"],
    summary: "Shows the key and what its account has",
    description:
      "Open requests hold a part of the balance. What is available may exceed the rest by an overdraft.",
    responses: {
      200: answerToKey("Account", "The account."),
      ...errorsOf(400, 401, 429, 502),
    },
  };
}

/** GET /v1/usage. */
export function getUsage(): object {
  return {
    operationId: "getUsage",
    tags: ["account"],
    summary: "Sums up what the account used",
    description: `Whole days in UTC, at most ${USAGE_DAYS_MAX} of them.`,
    parameters: [
      {
        name: "by",
        in: "query",
        description: "What to sum up by.",
        schema: { type: "string", enum: usageQueryGroupings, default: "day" },
      },
      day("since", `The first day; ${USAGE_DAYS_DEFAULT} days before the end unless given.`),
      day("until", "The day after the last one; tomorrow unless given."),
    ],
    responses: {
      200: answerToKey("UsageReport", "The sums."),
      ...errorsOf(400, 401, 429, 502),
    },
  };
}

/** GET /v1/requests/{id}. */
export function getReceipt(): object {
  return {
    operationId: "getReceipt",
    tags: ["account"],
    summary: "Shows what became of one of the account's requests, and what it cost",
    parameters: [pathId("The `x-request-id` of an answer.")],
    responses: {
      200: answerToKey("Receipt", "The receipt."),
      ...errorsOf(400, 401, 404, 429, 502),
    },
  };
}

function day(name: string, description: string): object {
  return {
    name,
    in: "query",
    description: `${description} A date in UTC, or whole days back from today.`,
    schema: {
      type: "string",
      pattern: String.raw`^(\d{4}-\d{2}-\d{2}|\d{1,5}d)$`,
      examples: ["2026-11-01", "7d"],
    },
  };
}

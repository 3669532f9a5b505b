import { describe, expect, test } from "bun:test";
import { lazy } from "../../../src/lib/lazy.ts";
import { responsesRows } from "../../contract/responsesRows.ts";
import { describedBy } from "../../support/gateway/apiDescription.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { embeddingsRows } from "../embeddings/embeddingsRows.ts";
import { fields, openFields, type FieldRow } from "../chat/fieldRows.ts";

const at = openOneModelBefore();
const described = lazy(() => describedBy(at.gateway));

/** Rules of the gateway that a schema cannot express, and the words for them in the description. */
const saidInWords: readonly (readonly [message: RegExp, words: string])[] = [
  [/ must not differ$/, "two different limits for the answer's tokens"],
  [/^\w+ is not supported, use \w+$/, "another server's name for such a limit or for `n`"],
  [/^(?:background|deferred) is not supported$/, "`background` or `deferred` other than false"],
  [/^cache_control beyond 5m is not supported$/, "a `cache_control` with a `ttl` over `5m`"],
  [
    /: it may cost more than tokens, |: the model has no rub_|: the provider does not count it /,
    "a tool or a field that may cost more than tokens",
  ],
  [
    /^(?:models|route|provider) is not supported$/,
    "fields and types of tools that the operator refuses",
  ],
];

const saidOfChats: typeof saidInWords = [
  [/^\S*[A-Z\u212a]\S* is not supported$/, "a known field in other upper or lower case (`Model`)"],
  [/\.text (?:is required|must be a string)$/, "Required if the type is `text`"],
  [
    /^messages\[\d\]\.content (?:is required|must be a string or an array of parts)$/,
    "Required, except in an assistant message with `tool_calls`",
  ],
];

const saidOfResponses: typeof saidInWords = [
  [/^request_id is not supported$/, "`request_id` gets a 400"],
  [
    /^(?:prompt|prompt\.id|prompt_cache_options\.comparison_response_id|conversation|conversation\.id|id|file_id|vector_store_ids|container) must be a string(?: or an object with an id)?$/,
    "A stored object that the request names",
  ],
];

const saidOfEmbeddings: typeof saidInWords = [
  [/^input must contain at most \d+ items$/, "sets the most inputs of a request"],
  [/^input must not mix /, "inputs of several types"],
  [/^stream is not supported$/, "`stream` other than false"],
  [/^messages is not supported$/, "`messages`"],
  [/^input_type is not supported$/, "fields and types of tools that the operator refuses"],
  [/^background is not supported$/, "`background` or `deferred` other than false"],
  [/: it may cost more than tokens, /, "a tool or a field that may cost more than tokens"],
  [/^\S*[A-Z]\S* is not supported$/, "a known field in other upper or lower case (`Model`)"],
  [/^model is not an embedding model: /, "a model of another kind"],
];

const responsesBodies = responsesRows.map(([fields, message]): FieldRow => [
  { model: "m", ...fields },
  message,
]);

/** The value after a round trip through JSON, which has no undefined members. */
const rows = [
  ["ChatRequest", [...fields, ...openFields], [...saidInWords, ...saidOfChats]],
  ["ResponsesRequest", responsesBodies, [...saidInWords, ...saidOfResponses]],
  ["EmbeddingsRequest", embeddingsRows, saidOfEmbeddings],
] as const;

describe.each(rows)("%s", (schema, bodies, beyond) => {
  test.each(bodies.map(([body, message]) => [message ?? "accepted", body] as const))(
    "%s: %j",
    async (message, body) => {
      const { complaints } = await described();
      const isRefused = complaints(schema, JSON.parse(JSON.stringify(body))).length > 0;
      const isBeyond = beyond.some(([refusal]) => refusal.test(message));
      expect(isRefused).toBe(message !== "accepted" && !isBeyond);
    },
  );

  test("describes the rules that a schema cannot express", async () => {
    const { text } = await described();
    for (const [refusal, words] of beyond) {
      expect(bodies.some(([, message]) => refusal.test(message ?? ""))).toBe(true);
      expect(text).toContain(words);
    }
  });
});

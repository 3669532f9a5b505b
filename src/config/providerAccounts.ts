import { commandOptions } from "./keyIssuer.ts";
import { headers, secret, text, wholeNumber } from "./option.ts";

/** The keys of an account of a provider. What is not set is that of the provider. */
export const accountOptions = {
  id: text("id", {
    required: true,
    form: "a short name that you choose, in quotes",
    example: '"first"',
    doc: "A name that you choose. With the id of the provider it names the account, such as groq/first: in logs, metrics, records and, for this account alone, in routes.",
  }),
  apiKey: secret("api_key", {
    serveOnly: true,
    what: "key",
    example: '"${GROQ_KEY}"',
    doc: "The key of the account. Or api_key_file. The provider itself has none then.",
  }),
  ...commandOptions,
  headers: headers("headers", {
    serveOnly: true,
    example: false,
    doc: "Extra request headers of the account, beside those of the provider.",
  }),
  baseUrl: text("base_url", {
    example: '"https://api.groq.com/openai/v1"',
    doc: "Default: that of the provider.",
  }),
  weight: wholeNumber("weight", {
    default: 1,
    min: 1,
    max: 1_000_000,
    doc: "The share of the account in the requests of each route of the provider, 1 or more. It does not change the shares between routes.",
  }),
  maxConcurrent: wholeNumber("max_concurrent", {
    max: 1_000_000,
    example: "0",
    doc: "Concurrent requests of the account. 0 = no limit. Default: that of the provider.",
  }),
  requestsPerMinute: wholeNumber("requests_per_minute", {
    max: 10_000_000,
    example: "0",
    doc: "Requests of the account in a minute. 0 = no limit. Default: that of the provider.",
  }),
} as const;

import { fieldsOf } from "../lib/json.ts";

/**
 * What an answer says of a service that costs more than the usual one: OpenAI,
 * https://platform.openai.com/docs/guides/priority-processing, and Anthropic, whose usage has these fields,
 * https://platform.claude.com/docs/en/about-claude/pricing.
 */
const EXPENSIVE_SERVICES = [
  ["service_tier", "priority"],
  ["speed", "fast"],
  ["inference_geo", "us"],
] as const;

/** Names the services that cost more than the usual ones: `service_tier priority`. */
export function expensiveServicesOf(answer: unknown): readonly string[] {
  const fields = fieldsOf(answer);
  return EXPENSIVE_SERVICES.filter(([name, value]) => fields[name] === value).map((service) =>
    service.join(" "),
  );
}

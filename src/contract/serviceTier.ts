import { type JsonFields, fieldsOf } from "../lib/json.ts";
import { type ApiError, invalidRequest } from "./errors.ts";
import { serviceTiers, tierOf, type PriceList, type ServiceTier } from "./priceList.ts";

/**
 * The service tier that a request asks for. "auto": none, so the project at the provider decides. Names of OpenAI:
 * https://platform.openai.com/docs/guides/priority-processing, and of Anthropic:
 * https://platform.claude.com/docs/en/api/service-tiers
 */
export type AskedTier = ServiceTier | "standard" | "auto";

/**
 * Values of `service_tier` in requests and answers. OpenAI calls its priority tier fast too:
 * https://openai.com/api-fast-mode/
 */
const TIERS: ReadonlyMap<unknown, AskedTier> = new Map([
  ["auto", "auto"],
  ["default", "standard"],
  ["standard", "standard"],
  ["standard_only", "standard"],
  ["flex", "flex"],
  ["priority", "priority"],
  ["fast", "priority"],
  ["batch", "batch"],
]);

/** Services that have prices of their own, if the config has them: each as field and value of requests and answers. */
const SERVICE_OF: Readonly<Record<ServiceTier, readonly [field: string, value: string]>> = {
  flex: ["service_tier", "flex"],
  priority: ["service_tier", "priority"],
  batch: ["service_tier", "batch"],
  fast: ["speed", "fast"],
};

/** Throws ApiError 400 for two of them at once: no price is for both. */
export function askedTier(body: JsonFields): AskedTier {
  const asked = TIERS.get(body["service_tier"]) ?? "auto";
  if (body["speed"] !== "fast") return asked;
  if (asked === "auto" || asked === "standard") return "fast";
  throw invalidRequest(`speed fast and service_tier ${asked} cannot be used together`);
}

/** The field of a request that asks for the tier. */
export function tierField(tier: ServiceTier): string {
  return SERVICE_OF[tier][0];
}

/** The 400 for a service tier that the model does not sell. `allowed`: names of `[api] allowed_tools`. */
export function unsoldTier(
  { services }: Pick<PriceList, "services">,
  asked: AskedTier,
  allowed: readonly string[],
): ApiError | undefined {
  if (asked === "auto" || asked === "standard" || services[asked] !== undefined) return undefined;
  const [field, value] = SERVICE_OF[asked];
  if (allowed.includes(field)) return undefined;
  return invalidRequest(
    `${field} ${value} is not supported: the model has no price in service_tiers.${asked}, and ${field} is not in [api] allowed_tools`,
  );
}

/** The service tiers with prices in which a request may be answered, besides the standard one. */
export function possibleTiers({ services }: PriceList, asked: AskedTier): readonly ServiceTier[] {
  if (asked === "standard") return NONE;
  // The others are only served if the request asks for them.
  const possible = asked === "auto" ? "priority" : asked;
  return services[possible] === undefined ? NONE : [possible];
}

const NONE: readonly ServiceTier[] = [];
const NO_SERVICES: readonly string[] = [];
const STANDARD_SERVICE = "service_tier default";
const STANDARD_SPEED = "speed standard";

/** What an answer says of its service: for each field the known values, with the names that events have. */
const IN_ANSWERS: readonly (readonly [string, ReadonlyMap<unknown, readonly string[]>])[] = [
  [
    "service_tier",
    new Map([
      ["default", [STANDARD_SERVICE]],
      ["standard", [STANDARD_SERVICE]],
      ["fast", ["service_tier priority"]],
      ...["flex", "priority", "batch", "ultrafast"].map(
        (tier) => [tier, [`service_tier ${tier}`]] as const,
      ),
    ] as const),
  ],
  [
    "speed",
    new Map([
      ["fast", ["speed fast"]],
      ["standard", [STANDARD_SPEED]],
    ]),
  ],
  ["inference_geo", new Map([["us", ["inference_geo us"]]])],
];

/**
 * Names the services of an answer that may cost more or less than the usual ones, such as `service_tier priority`, and the
 * standard service tier and speed if the answer says that. `answer`: the object that has the fields.
 */
export function servicesOf(answer: unknown): readonly string[] {
  const fields = fieldsOf(answer);
  let found = NO_SERVICES;
  for (const [name, values] of IN_ANSWERS) {
    const named = values.get(fields[name]);
    if (named !== undefined) found = found === NO_SERVICES ? named : [...found, ...named];
  }
  return found;
}

/** Whether the prices cover the service. */
export function isSold({ services }: PriceList, service: string): boolean {
  if (service === STANDARD_SERVICE || service === STANDARD_SPEED) return true;
  const tier = tierNamed(service);
  return tier !== undefined && services[tier] !== undefined;
}

function tierNamed(service: string): ServiceTier | undefined {
  return serviceTiers.find((tier) => SERVICE_OF[tier].join(" ") === service);
}

/**
 * The tier to charge: that of the answer. An answer that does not name what the request asked for, a service tier or a
 * speed, is charged in the more expensive one of the standard tier and the one that was asked for. A tier without prices is
 * charged at the standard price.
 */
export function chargedTier(
  prices: PriceList,
  services: readonly string[] | undefined,
  asked: AskedTier,
): ServiceTier | undefined {
  const named = (services ?? NO_SERVICES).flatMap((service) => tierNamed(service) ?? []);
  const found = named.findLast((tier) => prices.services[tier] !== undefined) ?? named.at(-1);
  if (found !== undefined || asked === "auto" || asked === "standard") return found;
  if (services?.some((service) => service.startsWith(`${tierField(asked)} `))) return undefined;
  const { input, output } = tierOf(prices, asked, 0).price;
  const standard = prices.standard[0].price;
  return input >= standard.input && output >= standard.output ? asked : undefined;
}

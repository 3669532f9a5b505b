/** The end of the 400 for an extra: what may cost more than tokens. */
export const noPrice =
  "it may cost more than tokens, has no price, and is not in [api] allowed_tools";

/** The 400 for a service tier that a model does not sell. */
export function unsoldTier(field: string, tier: string): string {
  return `${field} ${tier} is not supported: the model has no price in service_tiers.${tier}, and ${field} is not in [api] allowed_tools`;
}

/** The end of the 400 for an extra that a model could sell. */
export function unsold(name: string, ...keys: readonly string[]): string {
  const missing = keys.map((key) => `no ${key}`).join(" and ");
  return `the model has ${missing}, and ${name} is not in [api] allowed_tools`;
}

/** The end of the 400 for an extra that the provider's interface does not count. */
export function uncounted(name: string): string {
  return `the provider does not count it over this interface, and ${name} is not in [api] allowed_tools`;
}

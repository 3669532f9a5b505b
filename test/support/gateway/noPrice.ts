/** The end of the 400 for an extra: what may cost more than tokens. */
export const noPrice =
  "it may cost more than tokens, has no price, and is not in [api] allowed_tools";

/** The 400 for a service tier that a model does not sell. */
export function unsoldTier(field: string, tier: string): string {
  return `${field} ${tier} is not supported: the model has no price in service_tiers.${tier}, and ${field} is not in [api] allowed_tools`;
}

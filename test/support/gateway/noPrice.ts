/** The end of the 400 for an extra: what may cost more than tokens. */
export const noPrice =
  "it may cost more than tokens, has no price, and is not in [api] allowed_tools";

import { matchesPattern } from "../../lib/pattern.ts";

/** A vendor, and its names in both lists. */
export interface Vendor {
  /** `litellm_provider`. */
  readonly litellm: string;
  readonly genai: string | undefined;
}

/** By the host of the provider's address, in which a * is any text. */
const VENDORS: readonly (readonly [host: string, litellm: string, genai?: string])[] = [
  ["api.openai.com", "openai", "openai"],
  ["api.anthropic.com", "anthropic", "anthropic"],
  ["generativelanguage.googleapis.com", "gemini", "google"],
  ["*aiplatform.googleapis.com", "vertex_ai-language-models", "google"],
  ["*.openai.azure.com", "azure", "azure"],
  ["api.x.ai", "xai", "x-ai"],
  ["api.deepseek.com", "deepseek", "deepseek"],
  ["api.mistral.ai", "mistral", "mistral"],
  ["api.groq.com", "groq", "groq"],
  ["openrouter.ai", "openrouter", "openrouter"],
  ["api.together.*", "together_ai", "together"],
  ["api.fireworks.ai", "fireworks_ai", "fireworks"],
  ["api.cerebras.ai", "cerebras", "cerebras"],
  ["api.cohere.*", "cohere_chat", "cohere"],
  ["api.perplexity.ai", "perplexity", "perplexity"],
  ["api.moonshot.*", "moonshot", "moonshotai"],
  ["api.minimax*", "minimax", "minimax"],
  ["api.z.ai", "zai", "zai"],
  ["api.voyageai.com", "voyage", "voyageai"],
  ["api.novita.ai", "novita", "novita"],
  ["api.deepinfra.com", "deepinfra"],
  ["dashscope*.aliyuncs.com", "dashscope"],
];

/** The vendor at an address. Undefined: unknown. */
export function vendorAt(baseUrl: string): Vendor | undefined {
  const host = URL.canParse(baseUrl) ? new URL(baseUrl).hostname : "";
  return vendorIn(VENDORS.find(([pattern]) => matchesPattern(pattern, host)));
}

/** The vendor with this `litellm_provider`. */
export function vendorNamed(litellm: string): Vendor {
  return vendorIn(VENDORS.find(([, name]) => name === litellm)) ?? { litellm, genai: undefined };
}

function vendorIn(row: (typeof VENDORS)[number] | undefined): Vendor | undefined {
  return row && { litellm: row[1], genai: row[2] };
}

import type { ProviderConfig } from "../../src/config/schema.ts";
import { configOf, loadText } from "./loadText.ts";

/** One provider with these lines besides its id and address. */
export function provider(lines: string, baseUrl = "https://one.example/v1"): string {
  return `[[providers]]\nid = "one"\nbase_url = ${JSON.stringify(baseUrl)}\n${lines}\n`;
}

export function providerOf(lines: string, baseUrl?: string): ProviderConfig | undefined {
  return configOf(provider(lines, baseUrl)).providers[0];
}

export function problemsOf(lines: string, baseUrl?: string): readonly string[] {
  return loadText(provider(lines, baseUrl)).problems;
}

const noModels = "FOLDER/config.toml: has no [[models]]: no request can be served";

/** A line that sets a key. */
export const key = 'api_key = "sk-secret"';

export function warningsOf(lines: string, baseUrl?: string): readonly string[] {
  return loadText(provider(lines, baseUrl)).warnings.filter((line) => line !== noModels);
}

/** A provider of kind openai on 127.0.0.1, with these lines besides its id, address and key. */
export function providerText(id: string, port: number, lines = ""): string {
  return `[[providers]]
id = "${id}"
base_url = "http://127.0.0.1:${port}/v1"
api_key = "${providerKey(id)}"
${lines}
`;
}

/** The key with which the gateway comes to a provider of `providerText`. */
export function providerKey(id: string): string {
  return `sk-upstream-${id}-0123456789`;
}

/** A model that is served by these providers, the first of them first, as `<id>-upstream`. */
export function modelText(id: string, providers: readonly string[], lines = prices): string {
  const routes = providers.map(
    (provider, at) => `
[[models.routes]]
provider = "${provider}"
model = "${id}-upstream"
priority = ${at + 1}
`,
  );
  return `[[models]]\nid = "${id}"\n${lines}\n${routes.join("")}\n`;
}

/** 25 nano-roubles for a token of the prompt, 200 for one of the answer, 2 for a cached one and 30 for one written to the cache. */
const prices = `
rub_input_per_1m = 25
rub_output_per_1m = 200
rub_cached_input_per_1m = 2
rub_cache_write_per_1m = 30
max_output_tokens = 1000
context_tokens = 10000`;

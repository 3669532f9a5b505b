import OpenAI, { APIError } from "openai";

// This file is the script of a web page. `startPageServer` bundles it and serves it.

/** What the page is to call. */
export interface PageTask {
  /** The address of the gateway, without `/v1`. */
  readonly gateway: string;
  readonly key: string;
}

/** What the page could read of the gateway's answers. An answer that the browser keeps from the page is `blocked`. */
export type PageResult = Readonly<Record<string, unknown>>;

/** Calls the gateway as pages do: by the openai package, and by fetch with Anthropic's headers. */
async function callGateway({ gateway, key }: PageTask): Promise<PageResult> {
  const options = { baseURL: `${gateway}/v1`, dangerouslyAllowBrowser: true, maxRetries: 0 };
  const client = new OpenAI({ ...options, apiKey: key });
  const stranger = new OpenAI({ ...options, apiKey: "sk-tg-wrong" });
  const messages = [{ role: "user" as const, content: "hello" }];
  return {
    chat: await told(async () => {
      const { data, response, request_id } = await client.chat.completions
        .create({ model: "small", messages })
        .withResponse();
      const cost = response.headers.get("x-tollgate-cost-rub");
      return [data.choices[0]?.message.content, cost, request_id?.slice(0, 4)];
    }),
    stream: await told(async () => {
      let text = "";
      const events = await client.chat.completions.create({
        model: "small",
        messages,
        stream: true,
      });
      for await (const event of events) text += event.choices[0]?.delta.content ?? "";
      return text;
    }),
    models: await told(async () => (await client.models.list()).data.map(({ id }) => id)),
    wrongKey: await told(() => stranger.models.list()),
    anthropic: await told(async () => {
      const headers = {
        "x-api-key": key,
        "anthropic-version": "2023-06-01",
        "anthropic-dangerous-direct-browser-access": "true",
      };
      const response = await fetch(`${gateway}/v1/models?limit=1`, { headers });
      const { has_more } = (await response.json()) as { has_more: boolean };
      return [response.status, response.headers.get("request-id")?.slice(0, 4), has_more];
    }),
    withCookies: await told(async () => {
      const credentials = "include" as const;
      return (await fetch(`${gateway}/healthz`, { credentials })).status;
    }),
  };
}

/** The value, or the status and message of an error that the page can read. */
async function told(work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    const isRead = error instanceof APIError && error.status !== undefined;
    return isRead ? [error.status, error.message] : "blocked";
  }
}

// The test calls it in the page.
Object.assign(globalThis, { callGateway });

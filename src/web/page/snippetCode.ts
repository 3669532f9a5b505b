import { jsonEscape, replaceUnprintable } from "../../lib/printable.ts";

/** A piece of code to start with. */
export interface Snippet {
  readonly id: "environment" | "curl" | "python" | "typescript";
  readonly code: string;
}

/** Code that calls the gateway at `address`. It names the variable of the key, and never the key. */
export function snippetsOf(address: string, model: string): readonly Snippet[] {
  const base = `${address}/v1`;
  // Every one of these languages reads the escapes of JSON.
  const name = replaceUnprintable(JSON.stringify(model), jsonEscape);
  return [
    {
      id: "environment",
      code: [
        `export OPENAI_BASE_URL=${quoted(base)}`,
        `export OPENAI_API_KEY="$TOLLGATE_KEY"`,
        `export ANTHROPIC_BASE_URL=${quoted(address)}`,
        `export ANTHROPIC_AUTH_TOKEN="$TOLLGATE_KEY"`,
      ].join("\n"),
    },
    {
      id: "curl",
      code: [
        `curl -sN ${quoted(`${base}/chat/completions`)} \\`,
        `  -H "Authorization: Bearer $TOLLGATE_KEY" \\`,
        `  -H "Content-Type: application/json" \\`,
        `  -d ${quoted(`{"model": ${name}, "stream": true, "messages": [{"role": "user", "content": "Hello"}]}`)}`,
      ].join("\n"),
    },
    {
      id: "python",
      code: [
        "import os",
        "from openai import OpenAI",
        "",
        "client = OpenAI(",
        `    base_url=${JSON.stringify(base)},`,
        `    api_key=os.environ["TOLLGATE_KEY"],`,
        ")",
        "answer = client.chat.completions.create(",
        `    model=${name},`,
        `    messages=[{"role": "user", "content": "Hello"}],`,
        ")",
        "print(answer.choices[0].message.content)",
      ].join("\n"),
    },
    {
      id: "typescript",
      code: [
        `import OpenAI from "openai";`,
        "",
        "const client = new OpenAI({",
        `  baseURL: ${JSON.stringify(base)},`,
        "  apiKey: process.env.TOLLGATE_KEY,",
        "});",
        "const answer = await client.chat.completions.create({",
        `  model: ${name},`,
        `  messages: [{ role: "user", content: "Hello" }],`,
        "});",
        "console.log(answer.choices[0].message.content);",
      ].join("\n"),
    },
  ];
}

/** A text as one word of a shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

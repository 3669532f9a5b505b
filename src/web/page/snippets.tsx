import { useSignal } from "@preact/signals";
import { jsonEscape, replaceUnprintable } from "../../lib/printable.ts";
import { CodeBlock } from "../components/codeBlock.tsx";
import { SelectField } from "../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../components/frame.tsx";
import { Notice } from "../components/states.tsx";
import type { Holding } from "./holding.ts";
import { optionText, text } from "./text.ts";

const words = text.snippets;
/** Stands in the code until the models are loaded. */
const SOME_MODEL = "MODEL";

/** Code to copy, with the address of this gateway and without the key. */
export function Snippets({ holding }: { holding: Holding }) {
  const chosen = useSignal("");
  const models = holding.models().data.value ?? [];
  const chats = models.filter(({ endpoints }) => endpoints.includes("chat"));
  const model = chosen.value || (chats[0]?.id ?? SOME_MODEL);
  // Without the slash of the page.
  const address = new URL(".", location.href).href.slice(0, -1);
  return (
    <>
      <ViewHead title={text.views.connect} text={words.intro} />
      <Toolbar>
        <SelectField
          label={words.model}
          value={chosen}
          options={(chats.length === 0 ? [{ id: SOME_MODEL }] : chats).map(({ id }, at) => ({
            value: at === 0 ? "" : id,
            text: optionText(id),
          }))}
        />
      </Toolbar>
      <Notice>{words.keyStays}</Notice>
      <div class="grid snippets">
        {snippetsOf(address, model).map(({ id, code }) => (
          <Panel key={id} title={words.titles[id]} text={words.notes[id]}>
            <CodeBlock label={words.titles[id]} code={code} />
          </Panel>
        ))}
      </div>
    </>
  );
}

/** A piece of code to start with. */
interface Snippet {
  readonly id: "environment" | "curl" | "python" | "typescript";
  readonly code: string;
}

/** Code that calls the gateway at `address`. It names the variable of the key, and never the key. */
function snippetsOf(address: string, model: string): readonly Snippet[] {
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

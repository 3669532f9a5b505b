import { useSignal } from "@preact/signals";
import { CodeBlock } from "../components/codeBlock.tsx";
import { SelectField } from "../components/fields.tsx";
import { Panel, Toolbar, ViewHead } from "../components/frame.tsx";
import { Notice } from "../components/states.tsx";
import type { Holding } from "./holding.ts";
import { snippetsOf } from "./snippetCode.ts";
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

import { estimateTokens } from "../../billing/estimate.ts";
import { measureItem } from "../../contract/responses.ts";
import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { sha256 } from "../../lib/sha256.ts";
import { ExcessError } from "../../providers/provider.ts";
import type { NamedObject } from "./answerDecoder.ts";

/** The only call whose output names it by `id`, and clients write its `call_id` there as with every other. */
const LOCAL_SHELL_CALL = "local_shell_call";

/** Far more than any answer needs: each is recorded as the account's own. */
const OUTPUT_ITEMS_MAX = 1024;
/** Of a whole stream: as many as one response can name, which is itself and four for each of its items. */
const OBJECTS_MAX = 1 + 4 * OUTPUT_ITEMS_MAX;

/** What a stream names: its events may say the same response, or another, again and again. */
export class NamedObjects {
  /** SHA-256 of the ids so far: they themselves may be as long as an event, or all have one hash in the engine's sets. */
  readonly #hashes = new Set<string>();
  #untaken: NamedObject[] = [];

  /**
   * Takes what an event's response names, as far as no event before it did. With the last one, which `isWhole`, all
   * comes once more: only then is known what each brings into a prompt. Throws ExcessError for too many, and takes none.
   */
  add(response: JsonFields, { isWhole }: { isWhole: boolean }): void {
    const named = objectsOf(response).map((object) => ({
      object,
      hash: sha256(object.id).toHex(),
    }));
    const added = isWhole ? named : named.filter(({ hash }) => !this.#hashes.has(hash));
    for (const { hash } of added) this.#hashes.add(hash);
    if (this.#hashes.size > OBJECTS_MAX) throw new ExcessError("the answer names too many objects");
    this.#untaken.push(...added.map(({ object }) => object));
  }

  /** What was taken since the last call. */
  take(): readonly NamedObject[] {
    const untaken = this.#untaken;
    this.#untaken = [];
    return untaken;
  }
}

/**
 * A response, its output items and the containers that these ran in: what its account may name again. A client that
 * sends the items back names the containers too. Throws ExcessError for too many items.
 */
export function objectsOf(response: JsonFields): NamedObject[] {
  const output: readonly unknown[] = Array.isArray(response["output"]) ? response["output"] : [];
  if (output.length > OUTPUT_ITEMS_MAX) throw new ExcessError("the answer has too many items");
  const objects: NamedObject[] = [];
  const add = (id: unknown, tokens: number | undefined): void => {
    if (typeof id === "string") objects.push({ id, tokens });
  };
  add(response["id"], undefined);
  for (const item of output.filter(isJsonObject)) {
    const { id, type, call_id, container_id, environment } = item;
    add(id, tokensOf(item));
    if (type === LOCAL_SHELL_CALL) add(call_id, 0);
    add(container_id, 0);
    if (isJsonObject(environment)) add(environment["container_id"], 0);
  }
  return objects;
}

/** A reference to an item stands for all of it: it counts what the item itself would in its place. */
function tokensOf(item: JsonFields): number {
  const { textBytes, otherParts } = measureItem(item);
  return estimateTokens(textBytes, otherParts);
}

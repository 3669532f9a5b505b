import { sha256 } from "../../lib/sha256.ts";
import type { NameRule } from "../provider.ts";

const HASH_CHARACTERS = 8;

/** The name itself if the provider takes it. Otherwise one that it takes, and that is the same each time for this name. */
export function providerToolName(name: string, rule: NameRule): string {
  const { charactersMax, foreign, start } = rule;
  const plain = name.replaceAll(foreign, "_");
  const started = start.test(plain) ? plain : `_${plain}`;
  if (started === name && name.length <= charactersMax) return name;
  const hash = sha256(name).toHex().slice(0, HASH_CHARACTERS);
  return `${started.slice(0, charactersMax - HASH_CHARACTERS - 1)}_${hash}`;
}

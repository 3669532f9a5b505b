import { issueKey } from "../auth/key.ts";
import { systemClock } from "../lib/clock.ts";
import { idMaker } from "../lib/id.ts";
import { systemRandom } from "../lib/random.ts";

/** A key that nobody has yet. */
interface NewKey {
  /** What its holder gets; shown once, never kept. */
  readonly secret: string;
  /** What the store keeps of it. */
  readonly kept: { readonly publicId: string; readonly hash: Uint8Array; readonly prefix: string };
}

/** Makes a key, which is in no store before its caller puts it there. */
export function newKey(): NewKey {
  const { key: secret, hash, prefix } = issueKey(systemRandom);
  const publicId = idMaker(systemClock, systemRandom)("key");
  return { secret, kept: { publicId, hash, prefix } };
}

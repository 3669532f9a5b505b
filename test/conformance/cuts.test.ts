import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { billedOf, receivedAnswerOf } from "../providers/conformance/reading.ts";
import { type Cell, nameOf, servedCells } from "./cells.ts";
import { decode } from "./decoding.ts";
import { sample } from "../support/sample.ts";

/** Each way to decode a stream once: many cells share one. */
const cells: readonly Cell[] = [
  ...new Map(
    servedCells.map((cell) => {
      const isOwn = cell.service === "native" && cell.speaker.endpoint !== "chat";
      return [`${cell.speaker.endpoint} ${cell.dialect.name} ${isOwn}`, cell] as const;
    }),
  ).values(),
];

/** In CI these are cut at many places, and the others at a few. */
const golden = [
  ["chat", "anthropic"],
  ["responses", "anthropic"],
  ["messages", "openai over responses"],
] as const;
const POSITIONS_IN_CI = { golden: 150, other: 12 };
const isGolden = ({ speaker, dialect }: Cell): boolean =>
  golden.some(([endpoint, name]) => speaker.endpoint === endpoint && dialect.name === name);

/** What clients of each interface get of a stream with reasoning, a text and two calls, byte for byte. */
test.each(golden)("the golden transcript of %s, over %s", async (endpoint, dialectName) => {
  const cell = cells.find(
    ({ speaker, dialect }) => speaker.endpoint === endpoint && dialect.name === dialectName,
  );
  const [transcript] = cell?.dialect.transcripts ?? [];
  if (cell === undefined || transcript === undefined) throw new Error("no such stream");
  const file = Bun.file(join(import.meta.dir, `golden/${endpoint}.txt`));
  const { text } = decode(cell, Buffer.from(transcript.text)) as { text: string };
  expect(text).toBe(await file.text());
});

const streams = cells.flatMap((cell) =>
  cell.dialect.transcripts.map(
    (transcript) => [nameOf(cell), transcript.name, cell, transcript] as const,
  ),
);

describe.each(streams)("%s: a stream %s", (_, __, cell, { text, answer }) => {
  const { speaker, dialect } = cell;
  const bytes = Buffer.from(text);
  const whole = decode(cell, bytes);
  const everywhere = Array.from({ length: bytes.byteLength + 1 }, (_, at) => at);
  // The first and the last are always there: a stream that is empty, and one that is whole.
  const most = POSITIONS_IN_CI[isGolden(cell) ? "golden" : "other"];
  const positions = [0, ...sample(everywhere.slice(1, -1), most), bytes.byteLength];
  const expected = { ended: "whole", answer: receivedAnswerOf(answer) };

  test("has its content", () => {
    if (whole.kind !== "whole") throw new Error("the answer is not whole");
    expect(speaker.readStream(whole.text)).toMatchObject(expected);
    expect(whole.usage).toEqual(billedOf(dialect, answer.usage));
  });

  test("is the same at any split of the network reads", () => {
    const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    expect(decode(cell, ...single)).toEqual(whole);
    for (const at of positions) {
      const cut = decode(cell, bytes.subarray(0, at), bytes.subarray(at));
      // Cheaper than an expectation at every byte.
      if (!Bun.deepEquals(cut, whole)) expect([at, cut]).toEqual([at, whole]);
    }
  });

  test("is whole only with all of its content, wherever the provider ends it", () => {
    const kinds = new Set<string>();
    let last: string | undefined;
    for (const at of positions) {
      const cut = decode(cell, bytes.subarray(0, at));
      kinds.add(cut.kind);
      if (cut.kind === "beforeContent" || cut.text === last) continue;
      last = cut.text;
      const failed = { ended: "failed", message: "upstream provider failure" };
      expect({ at, ...speaker.readStream(cut.text) }).toMatchObject({
        at,
        ...(cut.kind === "whole" ? expected : failed),
      });
    }
    const hasText = answer.text !== undefined;
    expect([...kinds]).toEqual(["beforeContent", ...(hasText ? ["failed"] : []), "whole"]);
  });
});

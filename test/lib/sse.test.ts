import { describe, expect, test } from "bun:test";
import {
  createSseSplitter,
  SseLimitError,
  SseEncodingError,
  type SseEvent,
} from "../../src/lib/sse.ts";
import { seededRandom } from "../support/seededRandom.ts";
import { cpuTimer } from "../support/measurement.ts";

const eventBytesMax = 4 * 1024 * 1024;
const encoder = new TextEncoder();

interface Seen {
  event: string | undefined;
  data: string | undefined;
}

interface Run {
  /** Events that bear a field, as a reader sees them. What bears none may be cut anywhere. */
  events: Seen[];
  /** Every event's bytes, in order; the end's are the last. */
  bytes: Uint8Array;
  terminated: boolean;
}

function run(pieces: readonly Uint8Array[]): Run {
  const splitter = createSseSplitter({ eventBytesMax });
  const all: SseEvent[] = pieces.flatMap((piece) => splitter.push(piece));
  const last = splitter.end();
  if (last !== undefined) all.push(last);
  const bytes = Buffer.concat(all.map(({ raw }) => raw));
  const events = all
    .map(({ event, data }) => ({ event, data }))
    .filter(({ event, data }) => event !== undefined || data !== undefined);
  return { events, bytes: new Uint8Array(bytes), terminated: last === undefined };
}

/** Shorthand: a text is data without an event name, a pair is name and data. */
function seen(
  events: readonly (string | [event: string | undefined, data: string | undefined])[],
): Seen[] {
  return events.map((one) =>
    typeof one === "string" ? { event: undefined, data: one } : { event: one[0], data: one[1] },
  );
}

const transcripts: [
  name: string,
  text: string,
  events: Parameters<typeof seen>[0],
  terminated: boolean,
][] = [
  ["nothing", "", [], true],
  ["LF", 'data: {"a":1}\n\ndata: [DONE]\n\n', ['{"a":1}', "[DONE]"], true],
  ["CRLF", 'data: {"a":1}\r\n\r\ndata: [DONE]\r\n\r\n', ['{"a":1}', "[DONE]"], true],
  ["CR", 'data: {"a":1}\r\rdata: [DONE]\r\r', ['{"a":1}', "[DONE]"], true],
  [
    "mixed line ends",
    "data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\ndata: 4\n\rdata: 5\r\n\rdata: 6\n\n",
    ["1", "2", "3", "4", "5", "6"],
    true,
  ],
  ["LF first, CRLF later", "data: 1\n\ndata: 2\r\n\r\ndata: 3\n\n", ["1", "2", "3"], true],
  ["a line end before the blank line, of CRLF then LF", "data: 1\r\ndata: 2\n\n", ["1\n2"], true],
  ["byte order mark", "\uFEFFdata: 1\n\ndata: 2\n\n", ["1", "2"], true],
  ["byte order mark, then a blank line", "\uFEFF\ndata: 1\n\n", ["1"], true],
  [
    "byte order mark within",
    "data: 1\n\n\uFEFFdata: 2\n\ndata:\uFEFF3\n\n",
    ["1", "\uFEFF3"],
    true,
  ],
  ["comments", ": keep-alive\n\n:\n\ndata: 1\n: between\ndata: 2\n\n", ["1\n2"], true],
  ["id, retry and unknown fields", "id: 7\nretry: 10\nfoo: bar\ndata: 1\nbaz\n\n", ["1"], true],
  [
    "fields that only begin like data",
    "datax: 1\ndat: 2\nDATA: 3\n data: 4\ndata : 5\ndata: 6\n\n",
    ["6"],
    true,
  ],
  [
    "event names",
    "event: a\ndata: 1\n\nevent: b\n\ndata: 2\nevent:c\nevent:  d\n\n",
    [
      ["a", "1"],
      ["b", undefined],
      [" d", "2"],
    ],
    true,
  ],
  ["several lines of data", "data: 1\ndata:\ndata: 3\n\n", ["1\n\n3"], true],
  ["no space behind the colon, or two", "data:1\n\ndata:  2\n\n", ["1", " 2"], true],
  ["empty data", "data\n\ndata:\n\ndata: \n\n", ["", "", ""], true],
  ["colons in data", "data: a: b:c\n\n", ["a: b:c"], true],
  ["blank lines around", "\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n\n", ["1", "2"], false],
  ["text beyond ASCII", "data: Привет 😀 é\r\n\r\ndata: 日本\n\n", ["Привет 😀 é", "日本"], true],
  ["NUL and U+FFFD that the provider wrote", "data: \u0000\uFFFD\n\n", ["\u0000\uFFFD"], true],
  ["cut in a line", "data: 1\n\ndata: [DO", ["1", "[DO"], false],
  ["cut behind a line", "data: 1\n\ndata: [DONE]\n", ["1", "[DONE]"], false],
  ["cut behind a CR", "data: 1\r\n\r\ndata: [DONE]\r", ["1", "[DONE]"], false],
  ["cut in a comment", "data: 1\n\n: half", ["1"], false],
];

describe("a transcript gives the same events and bytes", () => {
  describe.each(transcripts)("%s", (_, text, expected, terminated) => {
    const bytes = encoder.encode(text);
    const check = (pieces: readonly Uint8Array[]): void => {
      const result = run(pieces);
      expect(result.events).toEqual(seen(expected));
      expect(result.bytes).toEqual(bytes);
    };

    test("in one piece", () => {
      check([bytes]);
      expect(run([bytes]).terminated).toBe(terminated);
    });

    test("cut at every byte", () => {
      for (let at = 0; at <= bytes.length; at++) check([bytes.subarray(0, at), bytes.subarray(at)]);
    });

    test("cut at every pair of bytes", () => {
      for (let first = 0; first <= bytes.length; first++) {
        for (let second = first; second <= bytes.length; second++) {
          check([bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)]);
        }
      }
    });

    test("byte by byte, with empty pieces between", () => {
      check(Array.from(bytes, (byte) => [new Uint8Array([byte]), new Uint8Array(0)]).flat());
    });
  });
});

test("random pieces of a long mixed stream give what one piece gives", () => {
  const text = transcripts
    .slice(1, 19)
    .map(([, part]) => part.replace("\uFEFF", ""))
    .join("\n\n");
  const bytes = encoder.encode(text.repeat(5));
  const whole = run([bytes]);
  expect(whole.events.length).toBeGreaterThan(100);
  for (let seed = 1; seed <= 50; seed++) {
    const random = seededRandom(seed);
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length;) {
      const end = at + random.below(random.pick([2, 20, 400])) + 1;
      pieces.push(bytes.subarray(at, end));
      at = end;
    }
    const result = run(pieces);
    expect(result.events).toEqual(whole.events);
    expect(result.bytes).toEqual(bytes);
  }
});

describe("what push returns", () => {
  test("an event as soon as its blank line is there, also by CR alone", () => {
    for (const end of ["\n\n", "\r\r", "\r\n\r", "\r\n\r\n", "\n\r"]) {
      const splitter = createSseSplitter({ eventBytesMax });
      const events = splitter.push(encoder.encode(`data: 1${end}`));
      expect(events.map(({ data }) => data)).toEqual(["1"]);
      expect(splitter.end()).toBeUndefined();
    }
  });

  test("a comment by itself, with its bytes and no data", () => {
    const [event] = createSseSplitter({ eventBytesMax }).push(encoder.encode(": keep-alive\n\n"));
    expect(event?.data).toBeUndefined();
    expect(event?.event).toBeUndefined();
    expect(event?.raw).toEqual(encoder.encode(": keep-alive\n\n"));
  });

  test("each event's own bytes", () => {
    const splitter = createSseSplitter({ eventBytesMax });
    const events = splitter.push(encoder.encode("event: a\ndata: 1\n\ndata: 2\r\n\r\ndata"));
    expect(events.map(({ raw }) => Buffer.from(raw).toString())).toEqual([
      "event: a\ndata: 1\n\n",
      "data: 2\r\n\r\n",
    ]);
    expect(Buffer.from(splitter.end()?.raw ?? []).toString()).toBe("data");
  });

  test("what the end cut off, and then nothing", () => {
    const splitter = createSseSplitter({ eventBytesMax });
    expect(splitter.push(encoder.encode("data: 1\n"))).toEqual([]);
    expect(splitter.end()?.data).toBe("1");
    expect(splitter.end()).toBeUndefined();
  });

  test("the pushed bytes themselves where they are one event: nothing is copied", () => {
    const bytes = encoder.encode("data: 1\n\n");
    expect(createSseSplitter({ eventBytesMax }).push(bytes)[0]?.raw).toBe(bytes);
  });

  test("bytes that no later push changes", () => {
    const splitter = createSseSplitter({ eventBytesMax });
    splitter.push(encoder.encode("data: fi"));
    const [first] = splitter.push(encoder.encode("rst\n\n"));
    splitter.push(encoder.encode("data: second, and longer than the first one"));
    expect(first?.data).toBe("first");
    expect(Buffer.from(first?.raw ?? []).toString()).toBe("data: first\n\n");
  });
});

describe("invalid UTF-8", () => {
  const invalid: [name: string, bytes: number[]][] = [
    ["a lone continuation byte", [0x80]],
    ["an overlong slash", [0xc0, 0xaf]],
    ["a surrogate", [0xed, 0xa0, 0x80]],
    ["a character that was cut", [0xe2, 0x82]],
  ];
  test.each(invalid)("%s fails the reader of data, and nobody else", (_, bad) => {
    const bytes = Buffer.concat([
      Buffer.from("event: a\ndata: "),
      Buffer.from(bad),
      Buffer.from("\n\ndata: ok\n\n"),
    ]);
    const [event, next] = createSseSplitter({ eventBytesMax }).push(bytes);
    expect(event?.event).toBe("a");
    expect(Buffer.concat([event?.raw ?? Buffer.of(), next?.raw ?? Buffer.of()])).toEqual(bytes);
    expect(() => event?.data).toThrow(SseEncodingError);
    expect(() => event?.data).toThrow(SseEncodingError);
    expect(next?.data).toBe("ok");
  });

  test("in an event name reads as U+FFFD", () => {
    const bytes = Buffer.concat([
      Buffer.from("event: "),
      Buffer.of(0xff),
      Buffer.from("\ndata: 1\n\n"),
    ]);
    const [event] = createSseSplitter({ eventBytesMax }).push(bytes);
    expect([event?.event, event?.data]).toEqual(["\uFFFD", "1"]);
  });
});

describe("the limit of one event", () => {
  const limit = 32;
  /** An event of exactly so many bytes. */
  const sized = (bytes: number): Uint8Array => encoder.encode(`data: ${"x".repeat(bytes - 8)}\n\n`);
  const push = (pieces: readonly Uint8Array[]): number => {
    const splitter = createSseSplitter({ eventBytesMax: limit });
    return pieces.reduce((count, piece) => count + splitter.push(piece).length, 0);
  };
  const bytewise = (bytes: Uint8Array): Uint8Array[] =>
    Array.from(bytes, (byte) => new Uint8Array([byte]));

  test("is the largest event that passes, in one piece or in many", () => {
    expect(push([sized(limit), sized(limit)])).toBe(2);
    expect(push([...bytewise(sized(limit)), ...bytewise(sized(limit))])).toBe(2);
  });

  test("is never passed by one byte", () => {
    expect(() => push([sized(limit + 1)])).toThrow(SseLimitError);
    expect(() => push(bytewise(sized(limit + 1)))).toThrow(SseLimitError);
  });

  test("holds for a line that never ends, and for blank lines that never stop", () => {
    expect(() => push(bytewise(encoder.encode("x".repeat(limit + 1))))).toThrow(SseLimitError);
    expect(() => push([encoder.encode("\n".repeat(limit + 1))])).toThrow(SseLimitError);
    expect(() => push([encoder.encode("\r\n".repeat(limit))])).toThrow(SseLimitError);
  });

  test("lets the events before it through, and fails every later call", () => {
    const splitter = createSseSplitter({ eventBytesMax: limit });
    const events = splitter.push(Buffer.concat([sized(20), sized(limit + 1), sized(20)]));
    expect(events).toHaveLength(1);
    // The event that is too large is open for ever: nobody may go on behind it.
    expect(splitter.isBetweenEvents).toBe(false);
    expect(() => splitter.push(sized(20))).toThrow(SseLimitError);
    expect(() => splitter.end()).toThrow(SseLimitError);
  });
});

describe("time grows with the bytes and not faster", () => {
  // Quadratic work on these sizes would take minutes.
  const limitMs = 4_000;

  test("a line of 4 MB in pieces of 4 bytes", () => {
    const splitter = createSseSplitter({ eventBytesMax: 5_000_000 });
    const piece = encoder.encode("xxxx");
    const spentMs = cpuTimer();
    splitter.push(encoder.encode("data:"));
    for (let count = 0; count < 1_000_000; count++) splitter.push(piece);
    expect(splitter.push(encoder.encode("\n\n"))[0]?.data).toHaveLength(4_000_000);
    expect(spentMs()).toBeLessThan(limitMs);
  });

  test.each(["\n", "\r", "\r\n"])("300,000 tiny events in one push, line end %j", (lineEnd) => {
    const bytes = encoder.encode(`data:x${lineEnd}${lineEnd}`.repeat(300_000));
    const spentMs = cpuTimer();
    const events = createSseSplitter({ eventBytesMax }).push(bytes);
    expect(events).toHaveLength(300_000);
    expect(events.every(({ data }) => data === "x")).toBe(true);
    expect(spentMs()).toBeLessThan(limitMs);
  });

  test("an event of 500,000 lines of data", () => {
    const bytes = encoder.encode(`${"data:x\n".repeat(500_000)}\n`);
    const spentMs = cpuTimer();
    const [event] = createSseSplitter({ eventBytesMax }).push(bytes);
    expect(event?.data).toHaveLength(999_999);
    expect(spentMs()).toBeLessThan(limitMs);
  });
});

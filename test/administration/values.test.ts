import { describe, expect, test } from "bun:test";
import {
  accountName,
  amount,
  expiryTime,
  InvalidValue,
  label,
  listLimit,
  modelPatterns,
  overdraft,
  pastTime,
  reference,
  wholeNumber,
} from "../../src/administration/values.ts";
import { DAY_MS } from "../../src/lib/clock.ts";

const now = Date.parse("2026-06-15T12:00:00Z");

/** Texts in which invisible characters join or mark their neighbours. */
const joined = [
  "\u{1F468}\u200d\u{1F469}\u200d\u{1F467}", // a family
  "\u{1F3F3}\ufe0f\u200d\u{1F308}", // a rainbow flag
  "\u2764\ufe0f\u200d\u{1F525}", // a heart on fire
  "\u{1F3C3}\u{1F3FD}\u200d\u2640\ufe0f", // a runner with a skin tone
  "\u{1F1EB}\u{1F1F7}", // a flag of two letters
  "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}", // the flag of England
  "1\ufe0f\u20e3", // a keycap
  "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", // a Persian word
  "\u0915\u094d\u200d\u0937", // a Hindi word
];

/** Texts with an invisible character that joins nothing. */
const unseen = [
  "\u200d\u{1F467}", // a joiner at its beginning
  "\u{1F468}\u200d", // a joiner at its end
  "\u{1F468}\u200d\u200d\u{1F467}", // two joiners in a row
  "ali\u200dce", // a joiner between Latin letters
  "a\ufe0f\u200d\u{1F467}", // a joiner after a marked Latin letter
  "ali\u200cce", // a non-joiner between Latin letters
  "a\u200bb", // a zero-width space
  "\ufeffa", // a byte order mark
  "a\u202eb", // a text direction override
  "a\u{E0067}\u{E0062}\u{E007F}", // tags without a flag
  "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}", // tags that do not end
  "\u{1F468}\u001b\u{1F469}", // a control character
];

interface Value {
  readonly read: (text: string) => unknown;
  /** Texts that are their own values. */
  readonly same?: readonly string[];
  readonly good?: Readonly<Record<string, unknown>>;
  readonly bad: readonly string[];
}

/** The test of lib/money.ts has more texts that are no amount. */
const values: Readonly<Record<string, Value>> = {
  "an account name": {
    read: accountName,
    same: ["a", "alice", "team-7", "a.b_c@example.org", "_x", "9", "a".repeat(64)],
    bad: [
      "",
      " ",
      "-a",
      ".a",
      "@a",
      "a b",
      "a/b",
      "a\n",
      "a\u0000",
      "алиса",
      "a".repeat(65),
      "--json",
    ],
  },
  "an amount": {
    read: amount,
    good: { "100": 100_000_000_000n, "0.000000001": 1n, "4000000000": 4_000_000_000_000_000_000n },
    bad: ["0", "0.0", "-5", "", "abc", "5 RUB", "0.0000000001", "4000000000.1", "9".repeat(20)],
  },
  "an overdraft": {
    read: overdraft,
    good: { "0": 0n, none: 0n, "2.5": 2_500_000_000n },
    bad: ["-1", "all", "", "NONE"],
  },
  "a ref": {
    read: reference,
    same: ["invoice 7", "Счёт №5", "req", "vouchers:1", "r".repeat(128)],
    bad: [
      "",
      "req:1",
      "req:",
      "voucher:vch_1",
      "voucher:",
      "a\nb",
      "a\u001b[31m",
      "\u202e",
      "\ud800",
      "r".repeat(129),
    ],
  },
  "a label": {
    read: label,
    same: ["laptop", ...joined],
    bad: ["", "a\tb", "\u2028", "\ud83d", "l".repeat(129), ...unseen],
  },
  "a whole number": {
    read: wholeNumber(0, 600),
    good: { "0": 0, "600": 600, "007": 7 },
    bad: ["-1", "601", "1.5", "1e2", "", " 1", "NaN", "0x10", "none", "9".repeat(30)],
  },
  "a limit of lines": {
    read: listLimit,
    good: { "1": 1 },
    bad: ["0", "100001"],
  },
  "a past time": {
    read: (text: string) => pastTime(text, now),
    good: {
      "7d": now - 7 * DAY_MS,
      "24h": now - DAY_MS,
      "0s": now,
      "2026-01-31": Date.parse("2026-01-31T00:00:00Z"),
      "2024-02-29": Date.parse("2024-02-29T00:00:00Z"),
      "0050-03-01": Date.parse("0050-03-01T00:00:00Z"),
      "2026-01-31T10:00Z": Date.parse("2026-01-31T10:00:00Z"),
      "2026-01-31T10:00:00.5+03:00": Date.parse("2026-01-31T07:00:00.500Z"),
    },
    bad: [
      "",
      "7",
      "7w",
      "-7d",
      "d",
      "yesterday",
      "2026-02-30",
      "2026-13-01",
      "2026-00-10",
      "2025-02-29",
      "31.01.2026",
      "2026-1-1",
      "2026-01-31 10:00",
      "2026-01-31T10:00",
      "2026-01-31T25:00Z",
      "999999999999d",
    ],
  },
  "an expiry": {
    read: (text: string) => expiryTime(text, now),
    good: {
      "30d": now + 30 * DAY_MS,
      "500ms": now + 500,
      "2026-06-16": Date.parse("2026-06-16T00:00:00Z"),
      "36500d": now + 36_500 * DAY_MS,
    },
    bad: ["0d", "2026-06-15", "2020-01-01", "36501d", "999999999999d", "never", "2126-09-09"],
  },
  "a list of models": {
    read: modelPatterns,
    good: {
      small: ["small"],
      "small, gift": ["small", "gift"],
      "small,small": ["small"],
      "*": ["*"],
      "openai/gpt-*": ["openai/gpt-*"],
    },
    bad: [
      "",
      ",",
      "a,,b",
      "a,",
      "a\nb",
      "m".repeat(257),
      Array.from({ length: 101 }, (_, at) => `m${at}`).join(","),
    ],
  },
};

describe.each(Object.entries(values))("%s", (_, { read, same = [], good = {}, bad }) => {
  test.each(same)("accepts %j", (text) => {
    expect(read(text)).toBe(text);
  });

  test.each(Object.entries(good))("accepts %j", (text, value) => {
    expect(read(text)).toEqual(value);
  });

  test.each(bad)("refuses %j with one line that names the valid form", (text) => {
    const error = thrownBy(() => read(text));
    expect(error).toBeInstanceOf(InvalidValue);
    expect(String(error)).toMatch(/^[\x20-\x7e]+\.$/);
  });
});

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

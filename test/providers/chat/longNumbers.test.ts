import { expect, test } from "bun:test";
import { sentText } from "../../support/provider/sentText.ts";
import { anthropicDialect } from "../conformance/anthropicDialect.ts";
import { geminiDialect } from "../conformance/geminiDialect.ts";
import { callOf } from "../conformance/reading.ts";

const digits = "12345678901234567890";
const rounded = "12345678901234567000";

const called = (id: string) => ({
  id,
  type: "function",
  function: { name: "f", arguments: `{"id":${digits},"a":"${"x".repeat(200_000)}"}` },
});

// To read so takes fifteen times as long, and one body has room for a hundred such calls.
test.each([anthropicDialect, geminiDialect])(
  "$name: the calls of one request keep the digits of long numbers only until they are very long together",
  (dialect) => {
    const body = JSON.stringify({
      messages: [
        { role: "user", content: "hello" },
        { role: "assistant", content: "x", tool_calls: [called("a"), called("b")] },
      ],
    });
    const sent = sentText(dialect.chat.encode(callOf(body)));
    expect(sent.split(digits)).toHaveLength(2);
    expect(sent.indexOf(digits)).toBeLessThan(sent.indexOf(rounded));
  },
);

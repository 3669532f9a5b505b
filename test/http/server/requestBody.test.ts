import { describe, expect, test } from "bun:test";
import { parseJsonObject } from "../../../src/contract/jsonBody.ts";
import { readBody } from "../../../src/http/requestBody.ts";
import { refusalOf } from "../../contract/refusal.ts";

const bytesMax = 64;

function read(request: Request): ReturnType<typeof readBody> {
  return readBody(request, bytesMax);
}

function post(
  body: Uint8Array<ArrayBuffer> | ReadableStream | null,
  headers: Record<string, string> = {},
): Request {
  return new Request("http://localhost/", { method: "POST", body, headers });
}

/** A body in pieces, with a count of the pieces that were read. */
function inPieces(pieces: readonly Uint8Array[]): {
  body: ReadableStream;
  pulled: () => number;
  cancelled: () => boolean;
} {
  let next = 0;
  let cancelled = false;
  const body = new ReadableStream(
    {
      pull(controller) {
        const piece = pieces[next++];
        if (piece === undefined) controller.close();
        else controller.enqueue(piece);
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { body, pulled: () => next, cancelled: () => cancelled };
}

const bytes = (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(length).fill(0x20);

describe("readBody takes a content type", () => {
  const rows: [type: string | undefined, refusal: string | undefined][] = [
    [undefined, undefined],
    ["", undefined],
    ["application/json", undefined],
    ["Application/JSON", undefined],
    [" application/json ", undefined],
    ["application/json; charset=utf-8", undefined],
    ["application/json;charset=UTF-8", undefined],
    ['application/json; CharSet="utf-8"', undefined],
    ["application/json; charset=utf8", undefined],
    ['application/json; charset="UTF8"', undefined],
    ["application/json; profile=x; charset=utf-8", undefined],
    ["application/json;", undefined],
    ["text/plain", "content-type must be application/json"],
    ["text/json", "content-type must be application/json"],
    ["application/json5", "content-type must be application/json"],
    ["application/jsonp", "content-type must be application/json"],
    ["application/x-www-form-urlencoded", "content-type must be application/json"],
    ["multipart/form-data; boundary=application/json", "content-type must be application/json"],
    ["application/json, text/plain", "content-type must be application/json"],
    ["application/json; charset=utf-16", "content-type must be application/json in utf-8"],
    ["application/json; charset=iso-8859-1", "content-type must be application/json in utf-8"],
    [
      "application/json; charset=utf-8; charset=utf-16",
      "content-type must be application/json in utf-8",
    ],
    ["application/json; charset", "content-type must be application/json in utf-8"],
  ];
  test.each(rows)("%p: %p", async (type, expected) => {
    const request = post(
      new TextEncoder().encode("{}"),
      type === undefined ? {} : { "content-type": type },
    );
    const refusal = await refusalOf(() => read(request));
    expect([refusal?.status, refusal?.message]).toEqual([
      expected === undefined ? undefined : 400,
      expected,
    ]);
  });
});

describe("readBody takes a content encoding", () => {
  const refused = "content-encoding not supported";
  test.each([
    ["identity", undefined],
    ["Identity", undefined],
    ["", undefined],
    ["gzip", refused],
    ["br", refused],
    ["zstd", refused],
    ["identity, gzip", refused],
  ])("%p: %p", async (encoding, expected) => {
    const request = post(new TextEncoder().encode("{}"), { "content-encoding": encoding });
    expect((await refusalOf(() => read(request)))?.message).toBe(expected);
  });
});

describe("readBody limits", () => {
  test("a declared length, before it reads anything", async () => {
    const { body, pulled } = inPieces([bytes(1)]);
    const request = post(body, { "content-length": String(bytesMax + 1) });
    expect((await refusalOf(() => read(request)))?.message).toBe("request body is too large");
    expect(pulled()).toBe(0);
    const largest = post(bytes(bytesMax), { "content-length": String(bytesMax) });
    expect(await read(largest)).toHaveLength(bytesMax);
  });

  test.each([
    [bytesMax - 1, undefined],
    [bytesMax, undefined],
    [bytesMax + 1, "request body is too large"],
  ])("a body of %p bytes in pieces of 10: %p", async (length, expected) => {
    const pieces = Array.from({ length: Math.ceil(length / 10) }, (_, index) =>
      bytes(Math.min(10, length - index * 10)),
    );
    const refusal = await refusalOf(() => read(post(inPieces(pieces).body)));
    expect(refusal?.message).toBe(expected);
  });

  test("a body without an end: it reads up to the limit, and cancels", async () => {
    const endless = inPieces(Array.from({ length: 1000 }, () => bytes(10)));
    const refusal = await refusalOf(() => read(post(endless.body)));
    expect(refusal?.message).toBe("request body is too large");
    expect(endless.pulled()).toBeLessThan(12);
    expect(endless.cancelled()).toBe(true);
  });

  test("a declared length that is too small", async () => {
    const request = post(bytes(bytesMax + 1), { "content-length": "1" });
    expect((await refusalOf(() => read(request)))?.message).toBe("request body is too large");
  });
});

describe("readBody decodes", () => {
  const refused = "request body is not valid UTF-8";
  const rows: [name: string, body: number[], expected: string | undefined][] = [
    ["a lone continuation byte", [0x22, 0x80, 0x22], refused],
    ["an overlong slash", [0x22, 0xc0, 0xaf, 0x22], refused],
    ["an overlong NUL", [0x22, 0xc0, 0x80, 0x22], refused],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22], refused],
    ["a code point above U+10FFFF", [0xf4, 0x90, 0x80, 0x80], refused],
    ["a truncated character", [0x22, 0xe2, 0x82], refused],
    ["UTF-16 with a byte order mark", [0xff, 0xfe, 0x7b, 0x00], refused],
    ["a four-byte character", [0x22, 0xf0, 0x9f, 0x98, 0x80, 0x22], undefined],
  ];
  test.each(rows)("%s: %p", async (_, body, expected) => {
    const whole = new Uint8Array(body);
    const declared = post(whole, { "content-length": String(body.length) });
    const chunked = post(inPieces(Array.from(whole, (byte) => new Uint8Array([byte]))).body);
    expect((await refusalOf(() => read(declared)))?.message).toBe(expected);
    expect((await refusalOf(() => read(chunked)))?.message).toBe(expected);
  });

  test("keeps a byte order mark, so that the JSON is refused", async () => {
    const body = await read(post(new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d])));
    expect(body).toHaveLength(5);
    expect((await refusalOf(() => parseJsonObject(body)))?.message).toBe("body is not valid JSON");
  });

  test("a missing body as an empty one", async () => {
    expect(await read(post(null))).toHaveLength(0);
  });
});

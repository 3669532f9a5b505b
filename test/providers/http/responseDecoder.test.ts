import { describe, expect, test } from "bun:test";
import { viewOf } from "../../../src/lib/span.ts";
import { HEAD_BYTES_MAX, ResponseDecoder } from "../../../src/providers/http/responseDecoder.ts";

interface Decoded {
  status: number | undefined;
  body: string;
  ended: boolean;
  reusable: boolean;
  violation: string | undefined;
}

/** Decodes the pieces, then closes in good order if told so. */
function decode(pieces: readonly string[], options: { fin?: boolean } = {}): Decoded {
  const decoder = new ResponseDecoder();
  let body = "";
  for (const piece of pieces) {
    body += Buffer.from(viewOf(decoder.push(Buffer.from(piece, "latin1")))).toString("latin1");
  }
  if (options.fin === true) {
    decoder.finish();
  }
  const { hasEnded: ended, isReusable: reusable, violation } = decoder;
  return { status: decoder.head?.status, body, ended, reusable, violation };
}

interface Whole {
  readonly bytes: string;
  readonly body: string;
  /** The server closes the connection after the bytes. */
  readonly fin?: boolean;
  /** False: the connection is not used again. */
  readonly reusable?: boolean;
}

const GOLDEN: Readonly<Record<string, Whole>> = {
  "content-length": {
    bytes: "HTTP/1.1 200 OK\r\nContent-Length: 11\r\nX-A: b\r\n\r\nhello world",
    body: "hello world",
  },
  "no reason phrase, length zero": {
    bytes: "HTTP/1.1 200\r\ncontent-length:0\r\n\r\n",
    body: "",
  },
  "the same length twice": {
    bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    body: "ok",
  },
  "chunked with extensions and trailers": {
    bytes:
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" +
      '5\r\nhello\r\n1;a="b c"\r\n \r\n00A ; x\r\n0123456789\r\n0;last\r\nX-T: 1\r\nX-U: 2\r\n\r\n',
    body: "hello 0123456789",
  },
  "chunks with more extensions together than one may have": {
    bytes: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1\t;extension\r\na\r\n".repeat(500)}0\r\n\r\n`,
    body: "a".repeat(500),
  },
  "informational responses first": {
    bytes:
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" +
      "HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc",
    body: "abc",
  },
  "delimited by the close": {
    bytes: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end",
    body: "until the end",
    fin: true,
    reusable: false,
  },
  "HTTP/1.0": {
    bytes: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    body: "ok",
    reusable: false,
  },
  "connection: close": {
    bytes: "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
    body: "ok",
    reusable: false,
  },
  "204 with the length of a body": {
    bytes: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    body: "",
  },
  "304 without a length": {
    bytes: "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
    body: "",
  },
};

describe("a valid response is decoded the same at every split of the network reads", () => {
  for (const [name, { bytes, body, fin = false, reusable = true }] of Object.entries(GOLDEN)) {
    test(name, () => {
      const whole = decode([bytes], { fin });
      expect(whole).toMatchObject({ body, ended: true, reusable, violation: undefined });
      for (let cut = 1; cut < bytes.length; cut += 1) {
        expect(decode([bytes.slice(0, cut), bytes.slice(cut)], { fin })).toEqual(whole);
      }
      expect(decode(Array.from(bytes), { fin })).toEqual(whole);
    });

    test(`${name}: every proper beginning is unfinished`, () => {
      const bodyStart = bytes.lastIndexOf("\r\n\r\n", fin ? bytes.length : -1) + 4;
      const endOfUnfinished = fin ? bodyStart - 1 : bytes.length - 1;
      for (let cut = 0; cut <= endOfUnfinished; cut += 1) {
        const beginning = decode([bytes.slice(0, cut)], { fin: true });
        expect(beginning.ended).toBe(false);
      }
    });
  }
});

test("all chunks of one network read come out as one piece", () => {
  const decoder = new ResponseDecoder();
  decoder.push(Buffer.from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const piece = decoder.push(Buffer.from("3\r\nabc\r\n4\r\ndefg\r\n2\r\nhi\r\n0\r\n\r\n"));
  expect(Buffer.from(viewOf(piece)).toString()).toBe("abcdefghi");
  expect(decoder.hasEnded).toBe(true);
});

const BROKEN: Record<string, string> = {
  "another protocol": "SSH-2.0-OpenSSH_9.2\r\n",
  "HTTP/0.9": "<html>hello</html>",
  "binary bytes": "\u0000\u0001\u0002\u0003",
  "an empty line first": "\r\nHTTP/1.1 200 OK\r\n\r\n",
  "HTTP/2.0": "HTTP/2.0 200 OK\r\n\r\n",
  "lower-case http": "http/1.1 200 OK\r\n\r\n",
  "no status": "HTTP/1.1 OK\r\n\r\n",
  "two digits of status": "HTTP/1.1 20 OK\r\n\r\n",
  "four digits of status": "HTTP/1.1 2000 OK\r\n\r\n",
  "two spaces before the status": "HTTP/1.1  200 OK\r\n\r\n",
  "bare line feeds": "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
  "a bare line feed in a header": "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
  "a bare carriage return in a header": "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
  "a NUL in a header": "HTTP/1.1 200 OK\r\nA: b\u0000\r\n\r\n",
  "a folded header": "HTTP/1.1 200 OK\r\nA: b\r\n c: d\r\n\r\n",
  "a header without a colon": "HTTP/1.1 200 OK\r\nAbc\r\nD: e\r\n\r\n",
  "a header without a name": "HTTP/1.1 200 OK\r\n: e\r\n\r\n",
  "a space before the colon": "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
  "a switch of protocols": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
  "two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
  "two lengths in a list": "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
  "a signed length": "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
  "a negative length": "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
  "a length with an exponent": "HTTP/1.1 200 OK\r\nContent-Length: 1e1\r\n\r\nhello",
  "a length beyond all integers": `HTTP/1.1 200 OK\r\nContent-Length: ${"9".repeat(20)}\r\n\r\nx`,
  "an empty length": "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
  "a length with a non-breaking space": "HTTP/1.1 200 OK\r\nContent-Length: \u00a05\r\n\r\nhello",
  "a length and chunks":
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "another transfer coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
  "chunks twice":
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "chunks in HTTP/1.0": "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
};

const BROKEN_CHUNKS: Record<string, string> = {
  "no size": "\r\nhello\r\n",
  "a size that is no number": "xyz\r\nhello\r\n",
  "a signed size": "+5\r\nhello\r\n",
  "a size with a prefix": "0x5\r\nhello\r\n",
  "a size beyond all integers": "ffffffffffffff\r\nhello\r\n",
  "a size with too many digits": `${"0".repeat(40)}5\r\nhello\r\n`,
  "a line feed alone after the size": "5\nhello\r\n",
  "a carriage return alone after the size": "5\rhello\r\n",
  "a line feed in an extension": "5;a\nb\r\nhello\r\n",
  "a delete character in an extension": "5;a\x7fb\r\nhello\r\n",
  "an endless extension": `5;${"a".repeat(5000)}\r\nhello\r\n`,
  "data longer than its size": "5\r\nhello!\r\n",
  "data shorter than its size": "5\r\nhell\r\n0\r\n\r\n",
  "a line feed in a trailer": "0\r\nA: b\n\r\n\r\n",
  "endless trailers": `0\r\n${"A: b\r\n".repeat(5000)}\r\n`,
};

describe("a response that is not one clear HTTP/1.1 response is refused", () => {
  const cases = {
    ...BROKEN,
    ...Object.fromEntries(
      Object.entries(BROKEN_CHUNKS).map(([name, chunks]) => [
        `chunks: ${name}`,
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
      ]),
    ),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    test(name, () => {
      const whole = decode([bytes]);
      expect(whole.violation).toBeString();
      expect(whole).toMatchObject({ ended: false, reusable: false });
      const byteByByte = decode(Array.from(bytes));
      expect(byteByByte.violation).toBeString();
      expect(byteByByte).toMatchObject({ body: whole.body, ended: false, reusable: false });
    });
  }
});

test("data before a broken chunk is delivered", () => {
  const decoded = decode([
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
  ]);
  expect(decoded.body).toBe("hello");
  expect(decoded.violation).toBeString();
});

describe("bytes after the end", () => {
  const delimited = Object.entries(GOLDEN).filter(([, { fin = false }]) => !fin);
  for (const [name, { bytes, body }] of delimited) {
    test(`${name}: they are no part of the body, and the connection is spent`, () => {
      const expected = { body, ended: true, reusable: false };
      expect(decode([`${bytes}H`])).toMatchObject(expected);
      expect(decode([bytes, "H"])).toMatchObject(expected);
    });
  }
});

describe("the head is bounded", () => {
  const headOf = (bytes: number): string => {
    const start = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ";
    return `${start}${"a".repeat(bytes - start.length - 4)}\r\n\r\n`;
  };

  test("the largest head is accepted", () => {
    expect(decode([headOf(HEAD_BYTES_MAX)])).toMatchObject({ ended: true, violation: undefined });
  });

  test("so is one of very many headers", () => {
    const many = `HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${"a:\r\n".repeat(16_000)}\r\n`;
    expect(decode([many])).toMatchObject({ ended: true, violation: undefined });
  });

  test("one byte more is refused, whole or unfinished", () => {
    const tooLarge = headOf(HEAD_BYTES_MAX + 1);
    expect(decode([tooLarge]).violation).toBe("the response head is too large");
    expect(decode([tooLarge.slice(0, -4)]).violation).toBeUndefined();
    expect(decode([tooLarge.slice(0, -4), "aaaa"]).violation).toBe(
      "the response head is too large",
    );
  });

  test("informational responses count", () => {
    const interim = `HTTP/1.1 103 Early Hints\r\nLink: ${"a".repeat(1000)}\r\n\r\n`;
    const many = interim.repeat(60);
    for (const pieces of [
      Array.from({ length: 100 }, () => interim),
      [interim.repeat(100) + headOf(100)],
      [many, headOf(10_000)],
      [many, headOf(10_000).slice(0, -1)],
    ]) {
      expect(decode(pieces).violation).toBe("the response head is too large");
    }
  });
});

describe("after its headers are dropped, a response", () => {
  test.each([
    ["", true],
    ["Connection: close\r\n", false],
  ])("is known to be reusable or not: %j", (header, isReusable) => {
    const decoder = new ResponseDecoder();
    decoder.push(Buffer.from(`HTTP/1.1 200 OK\r\n${header}Content-Length: 2\r\n\r\n`));
    decoder.head?.dropHeaders();
    expect(decoder.head?.header("content-length")).toBeUndefined();
    decoder.push(Buffer.from("ok"));
    expect(decoder.isReusable).toBe(isReusable);
  });
});

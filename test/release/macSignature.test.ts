import { describe, expect, test } from "bun:test";
import { signAdHoc, signatureProblem } from "../../scripts/release/macSignature.ts";

const pageBytes = 4096;
const linkEditAt = 5 * pageBytes;
/** Not at the end of a page: the last page is shorter. */
const signatureAt = linkEditAt + 1000;

/** The smallest form of an executable for macOS with a place for a signature: 64-bit, two segments, little-endian. */
function machExecutable(): Uint8Array {
  const bytes = new Uint8Array(signatureAt + 100).map((_, at) => at % 251);
  const view = new DataView(bytes.buffer);
  const segment = (at: number, name: string, from: number, size: number): void => {
    view.setUint32(at, 0x19, true);
    view.setUint32(at + 4, 72, true);
    bytes.set(new TextEncoder().encode(name.padEnd(16, "\0")), at + 8);
    view.setBigUint64(at + 40, BigInt(from), true);
    view.setBigUint64(at + 48, BigInt(size), true);
  };
  view.setUint32(0, 0xfeedfacf, true);
  view.setUint32(16, 3, true);
  segment(32, "__TEXT", 0, linkEditAt);
  segment(104, "__LINKEDIT", linkEditAt, bytes.length - linkEditAt);
  [0x1d, 16, signatureAt, 100].forEach((value, at) => view.setUint32(176 + at * 4, value, true));
  return bytes;
}

describe("the signature of an executable for macOS", () => {
  test("covers all bytes before it, and the file ends with it", () => {
    const unsigned = machExecutable();
    expect(signatureProblem(unsigned)).toBe("the signature does not begin as one");
    const signed = signAdHoc(unsigned);
    expect(signatureProblem(signed)).toBeUndefined();
    // Only the load commands that say where the signature is have changed.
    const changed = [...unsigned.keys()].filter(
      (at) => at < signatureAt && unsigned[at] !== signed[at],
    );
    expect(changed.every((at) => at >= 104 && at < 192)).toBeTrue();
    const view = new DataView(signed.buffer);
    expect(view.getUint32(188, true)).toBe(signed.length - signatureAt);
    expect(view.getBigUint64(152, true)).toBe(BigInt(signed.length - linkEditAt));
    expect(view.getBigUint64(136, true) % 0x4000n).toBe(0n);
  });

  test("is replaced by the same when it is made again", () => {
    const signed = signAdHoc(machExecutable());
    expect(signAdHoc(signed)).toEqual(signed);
  });

  test.each([
    ["a load command", 200, "page 0 of 6 has another hash"],
    ["the first byte of a page", pageBytes * 2, "page 2 of 6 has another hash"],
    ["the last signed byte", signatureAt - 1, "page 5 of 6 has another hash"],
  ])("does not match when %s is changed", (_, at, problem) => {
    const signed = signAdHoc(machExecutable());
    signed[at] = (signed[at] ?? 0) ^ 1;
    expect(signatureProblem(signed)).toBe(problem);
  });

  test("is missed when bytes follow it", () => {
    const longer = new Uint8Array([...signAdHoc(machExecutable()), 0]);
    expect(signatureProblem(longer)).toBe("the signature is not at the end of the file");
  });

  test("is asked of executables for macOS only", () => {
    expect(() => signAdHoc(new Uint8Array(100))).toThrow("this is no executable for macOS");
  });
});

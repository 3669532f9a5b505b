const FIRST = { low: 0xaa6c78a5 | 0, high: 0x2d358dcc | 0 };
const SECOND = { low: 0x962eacc9 | 0, high: 0x8bb84b93 | 0 };
const THIRD = { low: 0xd433d4a3 | 0, high: 0x4b33a62e | 0 };
const LANES = [FIRST, SECOND, THIRD] as const;

/** The engine's tables use the lower 24 bits of a hash. */
const TABLE_BITS = 0xffffff;
const TWO_TO_32 = 0x1_0000_0000;
const BLOCK_BYTES = 48;

/**
 * Computes the hash that JavaScriptCore gives a string in Bun 1.4.5: rapidhash of its Latin-1 bytes, or of its UTF-16
 * bytes (https://github.com/oven-sh/WebKit/blob/main/Source/WTF/wtf/text/RapidHash.h). That hash has no seed, so a
 * client can send many strings with one hash, which makes the engine's tables slow. This class finds such strings
 * before they are parsed. A test compares it with the engine. 64-bit numbers are two 32-bit halves, and nothing is
 * allocated: this runs for each distinct name in a body.
 */
export class EngineHash {
  readonly #bytes: Uint8Array;
  /** The state of the hash, 64 bits. */
  #low = 0;
  #high = 0;
  /** The last product, 128 bits. */
  readonly #product = { low: 0, high: 0, overLow: 0, overHigh: 0 };

  /** `unitsMax` is the most UTF-16 units that a string may have. */
  constructor(unitsMax: number) {
    this.#bytes = new Uint8Array(2 * unitsMax);
  }

  /** The engine's 24-bit hash of the first `length` units. */
  of(units: Uint16Array, length: number): number {
    const bytes = this.#write(units, length);
    this.#mix(FIRST.low, FIRST.high, SECOND.low, SECOND.high);
    this.#low ^= bytes;
    if (bytes > 16) return this.#finishLong(bytes);
    if (bytes >= 4) return this.#finishShort(bytes);
    return this.#multiplyLast(bytes, this.#shortHalf(bytes, 1), this.#shortHalf(bytes, 0), 0, 0);
  }

  #write(units: Uint16Array, length: number): number {
    const bytes = this.#bytes;
    let all = 0;
    for (let at = 0; at < length; at++) {
      const unit = units[at] ?? 0;
      all |= unit;
      bytes[at] = unit;
    }
    if (all <= 0xff) return length;
    for (let at = 0; at < length; at++) {
      const unit = units[at] ?? 0;
      bytes[2 * at] = unit;
      bytes[2 * at + 1] = unit >>> 8;
    }
    return 2 * length;
  }

  /** Mixes all bytes but the last 16 into the state. */
  #mixBlocks(bytes: number): void {
    let offset = 0;
    let left = bytes;
    if (bytes > BLOCK_BYTES) {
      const { low, high } = this.#mixLanes(bytes);
      this.#low = low;
      this.#high = high;
      offset = Math.floor(bytes / BLOCK_BYTES) * BLOCK_BYTES;
      left -= offset;
    }
    if (left > 16) {
      this.#low ^= SECOND.low;
      this.#high ^= SECOND.high;
      this.#mixAt(offset, THIRD);
    }
    if (left > 32) this.#mixAt(offset + 16, THIRD);
  }

  /** Mixes whole blocks in three lanes, each with 16 bytes of every block. All lanes begin with the same state. */
  #mixLanes(bytes: number): { low: number; high: number } {
    const initial = { low: this.#low, high: this.#high };
    const all = { low: 0, high: 0 };
    for (const [lane, secret] of LANES.entries()) {
      this.#low = initial.low;
      this.#high = initial.high;
      for (let block = 0; block + BLOCK_BYTES <= bytes; block += BLOCK_BYTES) {
        this.#mixAt(block + 16 * lane, secret);
      }
      all.low ^= this.#low;
      all.high ^= this.#high;
    }
    return all;
  }

  #mixAt(offset: number, secret: { readonly low: number; readonly high: number }): void {
    this.#mix(
      this.#half(offset) ^ secret.low,
      this.#half(offset + 4) ^ secret.high,
      this.#half(offset + 8) ^ this.#low,
      this.#half(offset + 12) ^ this.#high,
    );
  }

  #finishLong(bytes: number): number {
    this.#mixBlocks(bytes);
    return this.#multiplyLast(
      bytes,
      this.#half(bytes - 16),
      this.#half(bytes - 12),
      this.#half(bytes - 8),
      this.#half(bytes - 4),
    );
  }

  #finishShort(bytes: number): number {
    const inner = bytes >= 8 ? 4 : 0;
    return this.#multiplyLast(
      bytes,
      this.#half(bytes - 4),
      this.#half(0),
      this.#half(bytes - 4 - inner),
      this.#half(inner),
    );
  }

  #multiplyLast(bytes: number, aLow: number, aHigh: number, bLow: number, bHigh: number): number {
    this.#multiply(aLow ^ SECOND.low, aHigh ^ SECOND.high, bLow ^ this.#low, bHigh ^ this.#high);
    const { low, high, overLow, overHigh } = this.#product;
    this.#mix(
      low ^ FIRST.low ^ bytes,
      high ^ FIRST.high,
      overLow ^ SECOND.low,
      overHigh ^ SECOND.high,
    );
    return this.#low & TABLE_BITS;
  }

  #half(offset: number): number {
    const bytes = this.#bytes;
    return (
      (bytes[offset] ?? 0) |
      ((bytes[offset + 1] ?? 0) << 8) |
      ((bytes[offset + 2] ?? 0) << 16) |
      ((bytes[offset + 3] ?? 0) << 24)
    );
  }

  /** The halves of at most three bytes: the last byte, and the first with the middle one. */
  #shortHalf(length: number, half: 0 | 1): number {
    const bytes = this.#bytes;
    if (length === 0) return 0;
    if (half === 1) return bytes[length - 1] ?? 0;
    return ((bytes[0] ?? 0) << 24) | (bytes[length >> 1] ?? 0);
  }

  /** The XOR of the product's two words becomes the state. */
  #mix(aLow: number, aHigh: number, bLow: number, bHigh: number): void {
    this.#multiply(aLow, aHigh, bLow, bHigh);
    const { low, high, overLow, overHigh } = this.#product;
    this.#low = low ^ overLow;
    this.#high = high ^ overHigh;
  }

  #multiply(aLow: number, aHigh: number, bLow: number, bHigh: number): void {
    const product = this.#product;
    const second = (Math.imul(aHigh, bLow) >>> 0) + (Math.imul(aLow, bHigh) >>> 0);
    const middle = second + (upper(aLow, bLow) >>> 0);
    const third = (upper(aHigh, bLow) >>> 0) + (upper(aLow, bHigh) >>> 0);
    const over = third + (Math.imul(aHigh, bHigh) >>> 0) + Math.floor(middle / TWO_TO_32);
    product.low = Math.imul(aLow, bLow);
    product.high = middle | 0;
    product.overLow = over | 0;
    product.overHigh = (upper(aHigh, bHigh) + Math.floor(over / TWO_TO_32)) | 0;
  }
}

/** The upper 32 bits of the product of two unsigned 32-bit numbers. */
function upper(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const first = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const second = (Math.imul(aLow, bHigh) + (first & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (first >>> 16) + (second >>> 16)) | 0;
}

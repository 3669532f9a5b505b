/** The engine's published constants. */
const FIRST = { low: 0xaa6c78a5 | 0, high: 0x2d358dcc | 0 };
const SECOND = { low: 0x962eacc9 | 0, high: 0x8bb84b93 | 0 };
const THIRD = { low: 0xd433d4a3 | 0, high: 0x4b33a62e | 0 };
const LANES = [FIRST, SECOND, THIRD] as const;

/** What the engine keeps of a hash. */
const KEPT_BITS = 0xffffff;
const TWO_TO_32 = 0x1_0000_0000;
const BLOCK_BYTES = 48;

/**
 * Hashes strings as the engine does, in Bun 1.4.5: rapidhash over one byte a character, or over two where one needs
 * them (https://github.com/oven-sh/WebKit/blob/main/Source/WTF/wtf/text/RapidHash.h). The engine has no seed, so that
 * anyone can make strings that all have one hash and stand in each other's way in its tables; who knows the same hash
 * sees them come. A test shows that it is still the same.
 *
 * Numbers of 64 bits are two halves here, low and high, and nothing is allocated: this runs for each name in a body.
 */
export class EngineHash {
  readonly #bytes: Uint8Array;
  /** The seed while a string is taken in; between them, what each begins with. */
  #low = 0;
  #high = 0;
  /** The last product, 128 bits. */
  readonly #product = { low: 0, high: 0, overLow: 0, overHigh: 0 };

  /** `unitsMax` is the most UTF-16 units that a string may have. */
  constructor(unitsMax: number) {
    this.#bytes = new Uint8Array(2 * unitsMax);
  }

  /** The 24 bits by which the engine's tables place the string of the first so many of these UTF-16 units. */
  of(units: Uint16Array, length: number): number {
    const bytes = this.#write(units, length);
    this.#mix(FIRST.low, FIRST.high, SECOND.low, SECOND.high);
    this.#low ^= bytes;
    if (bytes > 16) return this.#finishLong(bytes);
    if (bytes >= 4) return this.#finishShort(bytes);
    return this.#multiplyLast(bytes, this.#few(bytes, 1), this.#few(bytes, 0), 0, 0);
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

  /** Takes all but the last bytes of a long string into the seed. */
  #takeBlocks(bytes: number): void {
    let offset = 0;
    let left = bytes;
    if (bytes > BLOCK_BYTES) {
      const { low, high } = this.#seedOfLanes(bytes);
      this.#low = low;
      this.#high = high;
      offset = Math.floor(bytes / BLOCK_BYTES) * BLOCK_BYTES;
      left -= offset;
    }
    if (left > 16) {
      this.#low ^= SECOND.low;
      this.#high ^= SECOND.high;
      this.#take(offset, THIRD);
    }
    if (left > 32) this.#take(offset + 16, THIRD);
  }

  /** Whole blocks are taken in by three lanes, each 16 bytes of a block; all begin with the seed. */
  #seedOfLanes(bytes: number): { low: number; high: number } {
    const begun = { low: this.#low, high: this.#high };
    const all = { low: 0, high: 0 };
    for (const [lane, secret] of LANES.entries()) {
      this.#low = begun.low;
      this.#high = begun.high;
      for (let block = 0; block + BLOCK_BYTES <= bytes; block += BLOCK_BYTES) {
        this.#take(block + 16 * lane, secret);
      }
      all.low ^= this.#low;
      all.high ^= this.#high;
    }
    return all;
  }

  #take(offset: number, secret: { readonly low: number; readonly high: number }): void {
    this.#mix(
      this.#half(offset) ^ secret.low,
      this.#half(offset + 4) ^ secret.high,
      this.#half(offset + 8) ^ this.#low,
      this.#half(offset + 12) ^ this.#high,
    );
  }

  #finishLong(bytes: number): number {
    this.#takeBlocks(bytes);
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
    return this.#low & KEPT_BITS;
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

  /** The halves that three bytes or fewer make: the last one, and the first with the middle one. */
  #few(length: number, half: 0 | 1): number {
    const bytes = this.#bytes;
    if (length === 0) return 0;
    if (half === 1) return bytes[length - 1] ?? 0;
    return ((bytes[0] ?? 0) << 24) | (bytes[length >> 1] ?? 0);
  }

  /** The product's two words, one laid over the other, become the seed. */
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

/** The upper 32 of the 64 bits of a product of two numbers without a sign, by halves of theirs. */
function upper(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const first = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const second = (Math.imul(aLow, bHigh) + (first & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (first >>> 16) + (second >>> 16)) | 0;
}

/** The SHA-256 of a text's UTF-8 bytes: 32 bytes. */
export function sha256(text: string): Uint8Array {
  return new Uint8Array(Bun.SHA256.hash(text).buffer);
}

import { UpstreamError, type UpstreamExchange } from "../providers/upstream.ts";
import { ANSWER_BYTES_MAX } from "./decoding/answerDecoder.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The whole text of a JSON answer. Throws UpstreamError where it is cut, too large or not UTF-8. How large it is the
 * caller can choose, by asking for all that is known of each token: that says nothing of the provider.
 */
export async function collectText(exchange: UpstreamExchange): Promise<string> {
  await exchange.head;
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (let piece = await exchange.read(); piece; piece = await exchange.read()) {
    length += piece.byteLength;
    if (length > ANSWER_BYTES_MAX) throw new UpstreamError("misfire", "too large");
    pieces.push(piece);
  }
  const [only] = pieces;
  try {
    return utf8.decode(pieces.length === 1 && only ? only : Buffer.concat(pieces, length));
  } catch (cause) {
    throw new UpstreamError("provider", "answer", { cause });
  }
}

import { type JsonFields, isJsonObject, walk } from "../lib/json.ts";
import { bytesOfString, unitsOfString } from "../lib/outline.ts";

/** The size of a prompt: UTF-8 bytes of keys and strings, and what else it has. */
export interface TextSize {
  readonly textBytes: number;
  readonly nonTextParts: number;
  /** The most tokens that these parts can have. Infinity if their bytes are elsewhere. */
  readonly attachmentTokens: number;
  /** The parts that are audio, or video. */
  readonly audioParts: number;
  readonly videoParts: number;
}

export const noText: TextSize = {
  textBytes: 0,
  nonTextParts: 0,
  attachmentTokens: 0,
  audioParts: 0,
  videoParts: 0,
};

/** Measures a value. An object that `isNonTextPart` accepts counts as one part; its members do not count. */
export function measureText(
  value: unknown,
  isNonTextPart: (object: JsonFields) => boolean = () => false,
): TextSize {
  const size: Sum = { ...noText };
  walk(value, (found, key) => {
    if (key !== undefined) size.textBytes += Buffer.byteLength(key);
    if (typeof found === "string") size.textBytes += bytesOfString(found);
    if (!isJsonObject(found) || !isNonTextPart(found)) return typeof found === "object";
    addSize(size, sizeOfPart(found));
    return false;
  });
  return size;
}

/** A mutable total. */
export type Sum = { -readonly [Field in keyof TextSize]: TextSize[Field] };

export function addSize(sum: Sum, other: TextSize): void {
  sum.textBytes += other.textBytes;
  sum.nonTextParts += other.nonTextParts;
  sum.attachmentTokens += other.attachmentTokens;
  sum.audioParts += other.audioParts;
  sum.videoParts += other.videoParts;
}

/** A part that is not text. */
export function sizeOfPart(part: unknown): TextSize {
  const kind = recordingOf(part);
  return {
    textBytes: 0,
    nonTextParts: 1,
    attachmentTokens: attachmentTokensOf(part),
    audioParts: Number(kind === "audio"),
    videoParts: Number(kind === "video"),
  };
}

/** The most tokens of one picture at any provider, in round numbers: 16 tiles of 258 tokens at Google. */
const PICTURE_TOKENS_MAX = 4000;
/** The fewest bytes of a picture, and of a recording, for one token. */
const PICTURE_BYTES_PER_TOKEN = 64;
const RECORDING_BYTES_PER_TOKEN = 16;
/** Shorter texts are addresses and ids. */
const DATA_CHARACTERS_MIN = 2048;
const PICTURE = /image/i;
const RECORDING = /audio|video/i;

/**
 * The most tokens that a part which is not text can have, by the bytes of its longest text, which is base64: text in a
 * compressed file can have a token for each byte. A picture has a bound of its own.
 */
function attachmentTokensOf(part: unknown): number {
  let longest = 0;
  let kinds = "";
  walk(part, (found, key) => {
    if (typeof found === "string") {
      longest = Math.max(longest, unitsOfString(found));
      if (key === "type" || key === "media_type" || key === "format")
        kinds += ` ${found.slice(0, 64)}`;
    } else if (key !== undefined) kinds += ` ${key.slice(0, 64)}`;
    return typeof found === "object";
  });
  const bytes = longest < DATA_CHARACTERS_MIN ? 0 : (longest * 3) / 4;
  if (PICTURE.test(kinds))
    return Math.min(Math.ceil(bytes / PICTURE_BYTES_PER_TOKEN), PICTURE_TOKENS_MAX);
  if (bytes === 0) return Infinity;
  return Math.ceil(RECORDING.test(kinds) ? bytes / RECORDING_BYTES_PER_TOKEN : bytes);
}

/** Data or an address of audio or video. A provider may look into the data itself, so the type of the part decides nothing. */
const AUDIO_DATA = /^\s*data:\s*(?:audio\/|application\/ogg\b)/i;
const VIDEO_DATA = /^\s*data:\s*video\//i;
const AUDIO_ADDRESS = /\.(?:mp3|wav|aac|flac|ogg|oga|opus|m4a|aiff?|wma)(?:[?#]|$)/i;
const VIDEO_ADDRESS =
  /\.(?:mp4|mov|mpe?g|avi|webm|wmv|3gpp?|flv|mkv)(?:[?#]|$)|^https?:\/\/(?:[\w-]+\.)*(?:youtube\.com|youtu\.be)(?::\d+)?\//i;
const AUDIO_KIND = /audio/i;
const VIDEO_KIND = /video/i;
/** Longer than an address. */
const ADDRESS_CHARACTERS_MAX = 4096;

/** Whether a part that is not text is a recording: by its keys, its types, and its data or address. */
function recordingOf(part: unknown): "audio" | "video" | undefined {
  let isAudio = false;
  let isVideo = false;
  walk(part, (found, key) => {
    if (typeof found === "string") {
      const start = found.slice(0, ADDRESS_CHARACTERS_MAX);
      const isKind =
        key === "type" || key === "media_type" || key === "mime_type" || key === "mimeType";
      isAudio ||=
        AUDIO_DATA.test(start) || AUDIO_ADDRESS.test(start) || (isKind && AUDIO_KIND.test(start));
      isVideo ||=
        VIDEO_DATA.test(start) || VIDEO_ADDRESS.test(start) || (isKind && VIDEO_KIND.test(start));
    } else if (key !== undefined) {
      isAudio ||= AUDIO_KIND.test(key);
      isVideo ||= VIDEO_KIND.test(key);
    }
    return typeof found === "object";
  });
  if (isAudio) return "audio";
  return isVideo ? "video" : undefined;
}

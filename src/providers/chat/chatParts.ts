import { type RequestMessage, CONVENTION_FIELDS } from "../../contract/chat/chatRequestBody.ts";
import {
  fieldsOf,
  isJsonObject,
  type JsonFields,
  isDeeperThan,
  isGiven,
  textOf,
} from "../../lib/json.ts";
import { registeredMediaType } from "../../lib/mediaType.ts";
import { DEPTH_MAX, unsupported, UnsupportedRequestError, type ChatCall } from "../provider.ts";

/** Base64 in the request itself, or a URL. */
export type PartSource =
  | { readonly kind: "data"; readonly mediaType: string; readonly base64: string }
  | { readonly kind: "url"; readonly url: string };

/**
 * One part of a message, in no provider's form. `path` names it to the caller: `messages[2].content[0]`. `own` is the
 * client's object, for native fields of an interface; undefined for a plain string.
 */
export type ChatPart = {
  readonly path: string;
  readonly own: JsonFields | undefined;
} & (
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "image"; readonly source: PartSource }
  | { readonly kind: "audio"; readonly format: string; readonly base64: string }
  | { readonly kind: "file"; readonly source: PartSource; readonly name: string | undefined }
);

/** The user's first message where an interface requires one and the conversation begins with the assistant. */
export const OPENING = "(no message)";

/**
 * The parts of a checked message. A string is one text part, null none. A refusal beside the content is the last
 * text. Throws UnsupportedRequestError for other types and for ids of stored files, which only one provider knows.
 */
export function partsOf(message: RequestMessage, path: string): readonly ChatPart[] {
  const { content } = message;
  const at = `${path}.content`;
  const parts =
    typeof content === "string"
      ? [textPart(content, at)]
      : (content ?? []).map((part, index) => partOf(part, `${at}[${index}]`));
  const refusal = refusalOf(message);
  return refusal === "" ? parts : [...parts, textPart(refusal, `${path}.refusal`)];
}

/** The refusal beside an assistant's content; "" without one. */
export function refusalOf(message: RequestMessage): string {
  const { role, refusal } = message as RequestMessage & { refusal?: unknown };
  return role === "assistant" && typeof refusal === "string" ? refusal : "";
}

function textPart(text: string, path: string): ChatPart {
  return { kind: "text", text, path, own: undefined };
}

/**
 * The images of an earlier answer, which are beside its content. Other values under that name are ignored. Throws
 * UnsupportedRequestError for an image that cannot be read.
 */
export function picturesOf(
  message: RequestMessage,
  path: string,
): readonly (ChatPart & { kind: "image" })[] {
  const { images } = message as RequestMessage & { images?: unknown };
  const list: readonly unknown[] = Array.isArray(images) ? images : [];
  return list.flatMap((image, index) => {
    if (!isJsonObject(image) || (image["image_url"] ?? null) === null) return [];
    const at = `${path}.images[${index}]`;
    const part = partOf({ type: "image_url", ...image }, at);
    if (part.kind !== "image") throw unsupported(at);
    return [part];
  });
}

/** The texts of a message. Throws UnsupportedRequestError for any other part. */
export function textsOf(message: RequestMessage, path: string): readonly string[] {
  return partsOf(message, path).map((part) => {
    if (part.kind === "text") return part.text;
    throw unsupported(part.path, part.own?.["type"]);
  });
}

function partOf(part: JsonFields, path: string): ChatPart {
  const at = { path, own: part };
  const { type } = part;
  switch (type) {
    case "text":
    case "refusal": {
      const text = part[type];
      if (typeof text === "string") return { ...at, kind: "text", text };
      break;
    }
    case "image_url": {
      const image = part["image_url"];
      const url = isJsonObject(image) ? image["url"] : image;
      if (typeof url === "string") {
        return { ...at, kind: "image", source: sourceOf(url, `${path}.image_url`) };
      }
      break;
    }
    case "input_audio": {
      const { data, format } = fieldsOf(part["input_audio"]);
      if (typeof data === "string" && typeof format === "string") {
        return { ...at, kind: "audio", format, base64: data };
      }
      break;
    }
    case "file": {
      const { file_data: data, filename } = fieldsOf(part["file"]);
      if (typeof data === "string") {
        const name = typeof filename === "string" ? filename : undefined;
        return { ...at, kind: "file", source: sourceOf(data, `${path}.file`), name };
      }
      break;
    }
  }
  throw unsupported(path, type);
}

/** Longer than any real media type with parameters. */
const MEDIA_TYPE_CHARACTERS_MAX = 1000;

/**
 * Reads a URL, or a data: URL in base64 (https://www.rfc-editor.org/rfc/rfc2397). It may have megabytes, so it is
 * searched once.
 */
function sourceOf(url: string, path: string): PartSource {
  if (/^https?:\/\//i.test(url)) return { kind: "url", url };
  const comma = url.indexOf(",");
  const isNamed = comma >= 0 && comma <= MEDIA_TYPE_CHARACTERS_MAX;
  const [mediaType = "", ...parameters] = url
    .slice("data:".length, isNamed ? comma : 0)
    .toLowerCase()
    .split(";");
  if (!/^data:/i.test(url) || parameters.at(-1) !== "base64") {
    throw new UnsupportedRequestError(
      `${path} must be an http(s) address or a data: URL in base64`,
    );
  }
  return { kind: "data", mediaType: registeredMediaType(mediaType), base64: url.slice(comma + 1) };
}

/** Throws UnsupportedRequestError for kinds of answers that an interface does not have. `modes`: what it has besides text. */
export function refuseOtherAnswers(body: JsonFields, modes: readonly string[] = []): void {
  const { modalities, web_search_options: search } = body;
  if (isGiven(search)) throw unsupported("web_search_options");
  if (
    Array.isArray(modalities) &&
    (modalities as readonly unknown[]).some(
      (mode) => !["text", ...modes].some((one) => one === mode),
    )
  ) {
    throw unsupported("modalities");
  }
}

/**
 * Throws UnsupportedRequestError for an earlier audio answer, which is referenced by its id at the provider that made
 * it. `path` names the message.
 */
export function refuseRecording(message: RequestMessage, path: string): void {
  const { audio } = message as RequestMessage & { audio?: unknown };
  if (isGiven(audio)) throw unsupported(`${path}.audio`);
}

/**
 * The body for another interface: the given fields, then each top-level field of the client that the chat convention
 * does not know, in the client's own text, without those that the provider refuses. A given field replaces the client's; undefined fields are left out. Throws
 * UnsupportedRequestError for fields nested too deep.
 */
export function bodyWithOthers(
  { object, options: { dropFields } }: Pick<ChatCall, "object" | "options">,
  fields: JsonFields,
): string {
  if (isDeeperThan(fields, DEPTH_MAX))
    throw new UnsupportedRequestError("the request is nested too deep");
  const given = Object.entries(fields).filter(
    ([name, value]) => value !== undefined && !dropFields.includes(name),
  );
  const members = given.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  const taken = new Set([...given.map(([name]) => name), ...dropFields]);
  for (const { key, valueStart, valueEnd } of object.members) {
    if (CONVENTION_FIELDS.has(key) || taken.has(key)) continue;
    members.push(`${JSON.stringify(key)}:${textOf(object, valueStart, valueEnd)}`);
  }
  return `{${members.join(",")}}`;
}

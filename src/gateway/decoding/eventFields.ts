import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { lazy } from "../../lib/lazy.ts";
import type { SseEvent } from "../../lib/sse.ts";
import { ExcessiveAnswerError, parseAnswerJson } from "../../providers/provider.ts";

/** Parses an event's data at the first call. Most events only need their name. */
export type EventFields = () => JsonFields;

/** Lenient: bytes that are not UTF-8, or not JSON, are relayed too, and must not hide the end of an answer. */
export function eventFields(event: SseEvent): EventFields {
  return lazy(() => {
    const data = event.lenientData;
    if (data === undefined) return {};
    try {
      const value = parseAnswerJson(data);
      return isJsonObject(value) ? value : {};
    } catch (error) {
      if (error instanceof ExcessiveAnswerError) throw error;
      return {};
    }
  });
}

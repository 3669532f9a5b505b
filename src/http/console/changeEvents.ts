import type { Store } from "../../store/store.ts";
import type { ConsoleSession } from "./session.ts";

const LOOK_MS = 1000;
/** A comment keeps the connection open, and finds out that the page is gone. */
const COMMENT_EVERY_LOOKS = 15;

const encoder = new TextEncoder();
const CHANGE = encoder.encode("event: change\ndata: {}\n\n");
const COMMENT = encoder.encode(": open\n\n");

/**
 * Server-sent events: `change` after each second in which the store was changed, by the gateway, a command or this console.
 * The stream ends with the session.
 */
export function changeEvents(store: Store, session: ConsoleSession, signal: AbortSignal): Response {
  let isOpen = true;
  let timer: Timer | undefined;
  const stop = (): void => {
    isOpen = false;
    clearTimeout(timer);
  };
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      let seen = await store.changeSignal();
      let looks = 0;
      const close = (): void => {
        stop();
        try {
          controller.close();
        } catch {
          // The page has left, and the stream is closed.
        }
      };
      const look = async (): Promise<void> => {
        const now = await readSignal(store);
        if (!isOpen) return;
        looks += 1;
        if (now !== undefined && now !== seen) {
          controller.enqueue(CHANGE);
          seen = now;
        } else if (looks % COMMENT_EVERY_LOOKS === 0) controller.enqueue(COMMENT);
        lookLater();
      };
      const lookLater = (): void => {
        timer = setTimeout(() => void look(), LOOK_MS);
      };
      controller.enqueue(COMMENT);
      signal.addEventListener("abort", close);
      void session.ended.then(close);
      lookLater();
    },
    cancel: stop,
  });
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

/** Undefined while the database does not answer: the requests of the page show that. */
async function readSignal(store: Store): Promise<string | undefined> {
  try {
    return await store.changeSignal();
  } catch {
    return undefined;
  }
}

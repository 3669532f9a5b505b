import { usualMessage } from "../provider/anthropicAnswers.ts";
import { geminiRefusal } from "../provider/geminiAnswers.ts";
import { json, text, type ProviderAnswer } from "../provider/scriptedProvider.ts";

const serverError: ProviderAnswer = json(
  {
    error: {
      message: "The server had an error while processing your request. Sorry about that!",
      type: "server_error",
      param: null,
      code: null,
    },
  },
  { status: 500 },
);

/** What a request provokes at its provider, in the words of real ones. */
const troubles = {
  // Another model answers the same prompt.
  "500": (peer, request) =>
    (request.requestLine.includes("/messages ") ? usualMessage : serverError)(peer, request),
  "429 too large": json(
    {
      error: {
        message:
          "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 41234. The input or output tokens must be reduced in order to run successfully. Visit https://platform.openai.com/account/rate-limits to learn more.",
        type: "tokens",
        param: null,
        code: "rate_limit_exceeded",
      },
    },
    { status: 429 },
  ),
  "408": json(
    {
      error: {
        message: "Timed out reading request body. Try again, or use a smaller request size.",
        type: "invalid_request_error",
        param: null,
        code: "request_timeout",
      },
    },
    { status: 408 },
  ),
  "403 HTML": text(
    "<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head><body><h1>Sorry, you have been blocked</h1><p>This website is using a security service to protect itself from online attacks.</p></body></html>",
    { status: 403, type: "text/html; charset=UTF-8" },
  ),
  "431": text("<html><body><h1>431 Request Header Fields Too Large</h1></body></html>", {
    status: 431,
    type: "text/html",
  }),
  "403 video": geminiRefusal(
    403,
    "PERMISSION_DENIED",
    "You do not have permission to access the video, or it may not exist.",
  ),
  "402": json(
    {
      error: {
        message:
          "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 27342. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account",
        code: 402,
      },
    },
    { status: 402 },
  ),
} as const satisfies Readonly<Record<string, ProviderAnswer>>;

export type Trouble = keyof typeof troubles;

/** The text of a prompt that provokes it. */
export function troubleLine(trouble: Trouble): string {
  return `[trouble: ${trouble}]`;
}

/** Answers a request that provokes trouble. */
export const troubled: ProviderAnswer = (peer, request) => {
  const name = /\[trouble: ([^\]]+)\]/.exec(request.body)?.[1];
  const answer = name === undefined ? undefined : troubles[name as Trouble];
  if (answer === undefined) throw new Error("a request has neither a plan nor trouble");
  return answer(peer, request);
};

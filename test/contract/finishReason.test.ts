import { expect, test } from "bun:test";
import {
  finishReasonOf,
  isMissingFinishReason,
  isUnknownFinishReason,
  type FinishReason,
} from "../../src/contract/chat/finishReason.ts";

/** What servers say, by what it means. */
const words: Readonly<Record<FinishReason, string>> = {
  stop:
    "stop STOP REASON_STOP end_turn endTurn stop_sequence STOP_SEQUENCE eos eos_token eosFound stopStringFound COMPLETE " +
    "completed normal load",
  tool_calls: "tool_calls tool-calls TOOL_CALL tool_use toolCalls function_call REASON_TOOL_CALLS",
  length:
    "length max_tokens MAX_TOKENS max_output_tokens max-tokens maxTokens token_limit ERROR_LIMIT time_limit REASON_MAX_LEN " +
    "REASON_MAX_CONTEXT truncated model_length model_context_window_exceeded contextLengthReached maxPredictedTokensReached " +
    "pause_turn CONTINUATION compaction incomplete repetition MALFORMED_FUNCTION_CALL malformed_tool_use UNEXPECTED_TOOL_CALL " +
    "function_call_filter:MALFORMED_FUNCTION_CALL",
  content_filter:
    "content_filter content-filter content_filtered content_filter:SAFETY SAFETY safety RECITATION BLOCKLIST " +
    "PROHIBITED_CONTENT SPII LANGUAGE IMAGE_SAFETY MODEL_ARMOR OTHER sensitive refusal guardrail_intervened ERROR_TOXIC " +
    "blocked moderation",
  error:
    "error ERROR abort aborted cancelled canceled USER_CANCEL timeout TIMEOUT timed_out interrupted failed network_error " +
    "modelUnloaded insufficient_system_resource server_error rate_limit_exceeded",
};

test.each(
  Object.entries(words).flatMap(([reason, said]) =>
    said.split(" ").map((word) => [word, reason] as const),
  ),
)("the finish reason %p is %s", (word, reason) => {
  const withCall = reason === "stop" ? "tool_calls" : reason;
  expect([word, finishReasonOf(word, false)] as string[]).toEqual([word, reason]);
  expect([word, finishReasonOf(word, true)] as string[]).toEqual([word, withCall]);
  expect([isMissingFinishReason(word), isUnknownFinishReason(word)]).toEqual([false, false]);
});

test.each([undefined, null, "", "null", "None", "FINISH_REASON_UNSPECIFIED", "not_finished"])(
  "%p is no finish reason",
  (reported) => {
    expect([isMissingFinishReason(reported), isUnknownFinishReason(reported)]).toEqual([
      true,
      false,
    ]);
    expect(finishReasonOf(reported, false)).toBe("stop");
    expect(finishReasonOf(reported, true)).toBe("tool_calls");
  },
);

test.each(["enough", 7, {}, "x".repeat(1000)])("%p is unknown, and ends an answer", (reported) => {
  expect([isMissingFinishReason(reported), isUnknownFinishReason(reported)]).toEqual([false, true]);
  expect([finishReasonOf(reported, false), finishReasonOf(reported, true)]).toEqual([
    "stop",
    "tool_calls",
  ]);
});

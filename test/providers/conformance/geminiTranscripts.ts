import type { Transcript } from "./dialect.ts";

/**
 * Streams as https://ai.google.dev/gemini-api/docs/text-generation#streaming,
 * https://ai.google.dev/gemini-api/docs/thinking and https://ai.google.dev/gemini-api/docs/thought-signatures show
 * them: the line ends are CRLF, and there is no terminator.
 */
export const geminiTranscripts: readonly Transcript[] = [
  {
    name: "that thinks, and answers in many scripts",
    text: [
      `data: {"candidates": [{"content": {"parts": [{"text": "**Counting**\\n\\nЯ считаю.","thought": true}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 18,"totalTokenCount": 79,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 18}],"thoughtsTokenCount": 61},"modelVersion": "gemini-2.5-flash","responseId": "mAitaLmkHPPlz7IPvtfUqQ4"}`,
      `data: {"candidates": [{"content": {"parts": [{"text": "Ответ: "}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 18,"candidatesTokenCount": 4,"totalTokenCount": 92,"cachedContentTokenCount": 12,"thoughtsTokenCount": 70},"modelVersion": "gemini-2.5-flash","responseId": "mAitaLmkHPPlz7IPvtfUqQ4"}`,
      `data: {"candidates": [{"content": {"parts": [{"text": "четыре 👋."}],"role": "model"},"finishReason": "STOP","index": 0,"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT","probability": "NEGLIGIBLE"}]}],"usageMetadata": {"promptTokenCount": 18,"candidatesTokenCount": 9,"totalTokenCount": 97,"cachedContentTokenCount": 12,"thoughtsTokenCount": 70},"modelVersion": "gemini-2.5-flash","responseId": "mAitaLmkHPPlz7IPvtfUqQ4"}`,
    ]
      .map((event) => `${event}\r\n\r\n`)
      .join(""),
    answer: {
      reasoning: "**Counting**\n\nЯ считаю.",
      text: "Ответ: четыре 👋.",
      finish: "stop",
      usage: { prompt: 18, cached: 12, cacheWrite: 0, completion: 79, reasoning: 70 },
    },
  },
  {
    name: "that calls two tools at once, one with an id of its own, with a comment and an unknown field",
    text: [
      `: a comment\nid: 1\ndata: {"candidates":[{"content":{"parts":[{"text":"I look."}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":80,"candidatesTokenCount":3,"totalTokenCount":83},"responseId":"r-1_x"}`,
      `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather","args":{"city":"Paris"},"id":"k3x9"},"thoughtSignature":"CtkBAdHtim8="},{"functionCall":{"name":"clock"}}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":80,"candidatesTokenCount":21,"totalTokenCount":151,"thoughtsTokenCount":50},"responseId":"r-1_x"}`,
      `data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":80,"candidatesTokenCount":24,"totalTokenCount":154,"thoughtsTokenCount":50},"responseId":"r-1_x"}`,
    ]
      .map((event) => `${event}\n\n`)
      .join(""),
    answer: {
      text: "I look.",
      toolCalls: [
        { id: "k3x9", name: "weather", arguments: '{"city":"Paris"}' },
        { id: "call_r-1_x_0_1", name: "clock", arguments: "{}" },
      ],
      finish: "tool_calls",
      usage: { prompt: 80, cached: 0, cacheWrite: 0, completion: 74, reasoning: 50 },
    },
  },
  {
    name: "whose prompt was blocked",
    text: `data: {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},"usageMetadata": {"promptTokenCount": 31,"totalTokenCount": 31,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 31}]},"modelVersion": "gemini-2.5-flash","responseId": "x"}\r\n\r\n`,
    answer: {
      finish: "content_filter",
      usage: { prompt: 31, cached: 0, cacheWrite: 0, completion: 0, reasoning: 0 },
    },
  },
];

import type { ExpectedAnswer, ExpectedUsage } from "./dialect.ts";

const usage: ExpectedUsage = { prompt: 40, cached: 10, cacheWrite: 5, completion: 9, reasoning: 0 };
const call = { id: "call_1", name: "weather", arguments: '{"city":"Paris","days":3}' };

/** What every way to a provider must be able to bring home. */
export const answers: Readonly<Record<string, ExpectedAnswer>> = {
  "a text": { text: "Hello there, you.", finish: "stop", usage },
  "a text of many scripts": { text: 'Привет 👋 — 你好 \\ " \n end', finish: "stop", usage },
  "an empty text": { text: "", finish: "stop", usage },
  "a text cut at its bound": { text: "Hello", finish: "length", usage },
  "a text cut by a filter": { text: "Hello", finish: "content_filter", usage },
  "a reasoned text": { reasoning: "Let me think.", text: "It is four.", finish: "stop", usage },
  "reasoning alone": { reasoning: "Let me think.", finish: "length", usage },
  "one call": { toolCalls: [call], finish: "tool_calls", usage },
  "a text and two calls": {
    text: "I look it up.",
    toolCalls: [call, { id: "call_2", name: "clock", arguments: "{}" }],
    finish: "tool_calls",
    usage,
  },
  "a reasoned call": { reasoning: "Hm.", toolCalls: [call], finish: "tool_calls", usage },
  "an answer without usage": { text: "Hello", finish: "stop" },
  "an answer without cached tokens": {
    text: "Hello",
    finish: "stop",
    usage: { prompt: 7, cached: 0, cacheWrite: 0, completion: 2, reasoning: 0 },
  },
  "an answer that cost nothing": {
    text: "Hello",
    finish: "stop",
    usage: { prompt: 0, cached: 0, cacheWrite: 0, completion: 0, reasoning: 0 },
  },
  "reasoning tokens as a part of the completion's": {
    text: "Hello",
    finish: "stop",
    usage: { prompt: 7, cached: 2, cacheWrite: 0, completion: 90, reasoning: 80 },
  },
  "a wholly cached prompt": {
    text: "Hello",
    finish: "stop",
    usage: { prompt: 70, cached: 70, cacheWrite: 0, completion: 2, reasoning: 0 },
  },
  "cache writes for an hour, and searches": {
    text: "Hello",
    finish: "stop",
    usage: { ...usage, cacheWrite1h: 3, webSearches: 2 },
  },
};

/** Figures that no answer can have: its usage is then unknown, which is not zero. */
export const impossibleUsages: Readonly<Record<string, ExpectedUsage>> = {
  "a negative prompt": { ...usage, prompt: -1, cached: 0, cacheWrite: 0 },
  "a negative completion": { ...usage, completion: -1 },
  "half a token": { ...usage, completion: 1.5 },
  "a prompt beyond exact numbers": { ...usage, prompt: 2 ** 53, cached: 0, cacheWrite: 0 },
  "a completion beyond exact numbers": { ...usage, completion: 2 ** 53 },
};

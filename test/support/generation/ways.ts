import { postBytes } from "../gateway/rawClient.ts";
import type { TimedReply } from "./timedClient.ts";

/** A way to ask for a planned answer. */
export interface Way {
  readonly path: "chat/completions" | "responses" | "messages";
  readonly model: string;
  readonly stream: boolean;
}

/** A way in both forms. */
export function inBothForms(path: Way["path"], model: string): readonly Way[] {
  return [
    { path, model, stream: true },
    { path, model, stream: false },
  ];
}

/** A file beside the text of a prompt. */
export interface PromptFile {
  readonly base64: string;
}

/** What is asked for. */
export interface Asked {
  readonly prompt: string;
  /** The most tokens of the answer. */
  readonly bound: number;
  readonly file?: PromptFile | undefined;
  /** Further header lines. */
  readonly lines?: string;
}

/** The bytes of a request. */
export function requestBytes(way: Way, key: string, asked: Asked): string {
  return postBytes(`/v1/${way.path}`, key, JSON.stringify(bodyOf(way, asked)), asked.lines);
}

function bodyOf({ path, model, stream }: Way, { prompt, bound, file }: Asked): object {
  const url = file && `data:application/pdf;base64,${file.base64}`;
  switch (path) {
    case "chat/completions": {
      const part = { type: "file", file: { filename: "a.pdf", file_data: url } };
      const content = file ? [part, { type: "text", text: prompt }] : prompt;
      return { model, stream, max_tokens: bound, messages: [{ role: "user", content }] };
    }
    case "responses": {
      const part = { type: "input_file", filename: "a.pdf", file_data: url };
      const content = [...(file ? [part] : []), { type: "input_text", text: prompt }];
      return {
        model,
        stream,
        store: false,
        max_output_tokens: bound,
        input: [{ role: "user", content }],
      };
    }
    case "messages": {
      const source = { type: "base64", media_type: "application/pdf", data: file?.base64 };
      const content = [
        ...(file ? [{ type: "document", source }] : []),
        { type: "text", text: prompt },
      ];
      return { model, stream, max_tokens: bound, messages: [{ role: "user", content }] };
    }
  }
}

/** What only a whole answer has. */
const marks: Readonly<Record<Way["path"], Readonly<Record<"json" | "stream", string>>>> = {
  "chat/completions": { json: '"finish_reason":"stop"', stream: "data: [DONE]" },
  responses: { json: '"status":"completed"', stream: "event: response.completed" },
  messages: { json: '"stop_reason":"end_turn"', stream: "event: message_stop" },
};

/** A text that only the whole answer of a way has. */
export function markOf({ path, stream }: Way): string {
  return marks[path][stream ? "stream" : "json"];
}

/** Whether the client got a whole answer. */
export function isAnswered({ status, outcome, hasMark }: TimedReply): boolean {
  return status === 200 && outcome === "whole" && hasMark;
}

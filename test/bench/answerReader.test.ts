import { expect, test } from "bun:test";
import { JsonAnswerReader } from "../../bench/gateway/answerReader.ts";

const event = 'data: {"a":1}\n\n';
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const streamed =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
  `${chunk(event)}${chunk(event + event)}0\r\n\r\n`;
const json =
  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n[1,2,3]";

/** Pushes a text in two reads. Tells how many events were counted, and after which read the answer was whole. */
function readInTwo(reader: JsonAnswerReader, text: string, at: number): [number, boolean, boolean] {
  const first = reader.push(Buffer.from(text.slice(0, at)));
  const eventsInFirst = reader.events;
  const second = reader.push(Buffer.from(text.slice(at)));
  return [eventsInFirst + reader.events, first, second];
}

test("every event is counted once and the end is seen, wherever a stream is cut in two reads", () => {
  for (let at = 1; at < streamed.length; at += 1) {
    const reader = new JsonAnswerReader();
    expect([at, ...readInTwo(reader, streamed, at)]).toEqual([at, 3, false, true]);
    expect(reader.status).toBe(200);
  }
});

test("the end of a JSON answer is seen, wherever it is cut, and the next answer is another", () => {
  const reader = new JsonAnswerReader();
  for (let at = 1; at < json.length; at += 1) {
    expect([at, ...readInTwo(reader, json, at)]).toEqual([at, 0, false, true]);
    reader.reset();
  }
});

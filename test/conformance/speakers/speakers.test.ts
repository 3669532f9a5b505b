import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { chatSpeaker } from "./chatSpeaker.ts";
import { messagesSpeaker } from "./messagesSpeaker.ts";
import { responsesSpeaker } from "./responsesSpeaker.ts";

/** The golden transcripts, and the events that a client could miss, or get twice, without noticing. */
const streams = [
  [chatSpeaker, /"finish_reason":null/],
  [responsesSpeaker, /^$/],
  [messagesSpeaker, /ping|"type":"(?:text|thinking|input_json|signature)_delta"/],
] as const;

describe.each(streams.map(([speaker, loose]) => [speaker.endpoint, speaker, loose] as const))(
  "a client of %s",
  (endpoint, speaker, loose) => {
    const read = async (): Promise<readonly string[]> => {
      const golden = await Bun.file(join(import.meta.dir, `../golden/${endpoint}.txt`)).text();
      return golden.split(/(?<=\n\n)/);
    };

    test("reads the golden transcript, and each of its beginnings only as a stream without an end", async () => {
      const events = await read();
      expect(speaker.readStream(events.join("")).ended).toBe("whole");
      for (let count = 0; count < events.length; count += 1) {
        expect(() => speaker.readStream(events.slice(0, count).join(""))).toThrow();
      }
    });

    test("notices an event that is missing, comes twice or too early", async () => {
      const events = await read();
      for (const [at, event] of events.entries()) {
        if (loose.test(event)) continue;
        const missing = events.toSpliced(at, 1);
        const twice = events.toSpliced(at, 0, event);
        const before = events[at - 1] ?? "";
        // A ping may come anywhere.
        const isFirst = at === 0 || before.includes("ping");
        const early = isFirst ? twice : events.toSpliced(at - 1, 2, event, before);
        for (const [name, wrong] of Object.entries({ missing, twice, early })) {
          const run = (): unknown => speaker.readStream(wrong.join(""));
          expect(run, `${name}: ${event}`).toThrow();
        }
      }
    });
  },
);

import { changed } from "../fuzz/byteChanges.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import { changeTree, textOf, treeOf } from "../fuzz/jsonTree.ts";

/** Changes what a provider says: the bytes, the values, the figures of the usage, and of a stream its events. */
export function changedBody(events: readonly string[], chance: Chance): Buffer {
  const isStream = events.length > 1;
  const change = weighed(chance, [
    [3, inBytes],
    [4, inValues],
    [3, inUsage],
    [isStream ? 6 : 0, inOrder],
    [1, inAll],
  ] as const);
  return change(events, chance);
}

type BodyChange = (events: readonly string[], chance: Chance) => Buffer;

const inBytes: BodyChange = (events, chance) => changed(Buffer.from(events.join("")), chance);

/** Several kinds of changes one upon the other. */
const inAll: BodyChange = (events, chance) =>
  changed(
    inOrder(
      events.map((event) => valuesChanged(event, chance)),
      chance,
    ),
    chance,
  );

const inValues: BodyChange = (events, chance) => {
  const at = chance.below(events.length);
  return joined(
    events.map((event, index) => (index === at ? valuesChanged(event, chance) : event)),
  );
};

/** The JSON of an event, or all of a JSON answer. */
const objectIn = /\{[^\r\n]*\}/;

function valuesChanged(event: string, chance: Chance): string {
  return event.replace(objectIn, (json) =>
    textOf(changeTree(treeOf(JSON.parse(json)), chance).tree, chance),
  );
}

const figures = [
  "-1",
  "-0",
  "0",
  "1.5",
  "1e2",
  "1e400",
  "-1e400",
  "999999999",
  "1000000000",
  "2147483648",
  "9007199254740993",
  "9223372036854775808",
  '"12"',
  "null",
  "true",
  "[]",
  "{}",
] as const;
const wholeUsages = ["null", "{}", "[]", "[7]", '"20"', "20", "true"] as const;
const figureIn = /("\w*(?:[tT]okens?|TokenCount)\w*"):\d+/g;
const usageIn = /"(usage|usageMetadata)":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g;

/** Numbers that no count of tokens can be, or not this one; sometimes all of the usage is something else. */
const inUsage: BodyChange = (events, chance) => {
  const isWhole = chance.chance(0.3);
  const change = (event: string): string =>
    isWhole
      ? event.replaceAll(usageIn, (_, name) => `"${name}":${chance.pick(wholeUsages)}`)
      : event.replaceAll(figureIn, (all, name) =>
          chance.chance(0.4) ? `${name}:${chance.pick(figures)}` : all,
        );
  return joined(events.map(change));
};

/** Events that are none of the answer, or should not stand where they come. */
const strangers = [
  "data: [DONE]\n\n",
  'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n',
  'data: {"error":{"message":"of the provider","type":"server_error","code":500}}\n\n',
  'data: {"error":"of the provider"}\n\n',
  'event: response.failed\ndata: {"type":"response.failed","response":{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"x"},"usage":null,"output":[]}}\n\n',
  'event: response.completed\ndata: {"type":"response.completed"}\n\n',
  'event: message_stop\ndata: {"type":"message_stop"}\n\n',
  "data:\n\n",
  "data: null\n\n",
  "data: {}\n\n",
  "data: {nonsense\n\n",
  'data: {"choices":[]}\n\n',
  'data: {"choices":[{"index":0,"delta":null,"finish_reason":null}]}\n\n',
  'data: {"choices":[{"index":7,"delta":{"content":"late"},"finish_reason":null}]}\n\n',
  'data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","index":0}]}\n\n',
  "event: \u0000\ndata: \u0000\n\n",
  "retry: -1\nid: \u0000\n\n",
  "<html>502 Bad Gateway</html>\n\n",
  "\n\n\n",
] as const;

const finishes = /"(finish_reason|finishReason|stop_reason)":"\w+"/g;
const oddFinishes = ["null", '""', '"null"', '"eos"', '"error"', "7", "{}", '"stop"'] as const;

const inOrder: BodyChange = (events, chance) => {
  const result = [...events];
  for (let left = 1 + chance.below(3); left > 0 && result.length > 0; left -= 1) {
    const at = chance.below(result.length);
    weighed<() => unknown>(chance, [
      [2, () => result.splice(at, 1)],
      [1, () => result.splice(at, 0, result[at] ?? "")],
      [2, () => result.splice(chance.below(result.length), 0, ...result.splice(at, 1))],
      [3, () => result.splice(at, 0, chance.pick(strangers))],
      [1, () => result.push(chance.pick(strangers))],
      [1, () => result.splice(-1 - chance.below(3))],
      [
        2,
        () => {
          const odd = chance.pick(oddFinishes);
          for (const [index, event] of result.entries())
            result[index] = event.replaceAll(finishes, (_, name) => `"${name}":${odd}`);
        },
      ],
    ])();
  }
  return joined(result);
};

function joined(events: readonly string[]): Buffer {
  return Buffer.from(events.join(""));
}

import { weighed, type Chance } from "../seededRandom.ts";
import {
  poison,
  type Delivery,
  type Expected,
  type PlannedAnswer,
  type Question,
} from "./answerCase.ts";
import { changedBody } from "./eventChanges.ts";
import { framed, headOf, malformedFraming, type Framed } from "./framing.ts";
import { drawFailure, drawRefusal } from "./refusals.ts";
import type { Written } from "./dialect.ts";
import { several } from "../several.ts";

/** Draws what becomes of an answer on its way. */
export function planAnswer(question: Question, written: Written, chance: Chance): PlannedAnswer {
  const { hasShortTimeouts } = question.route;
  const fate = weighed(
    chance,
    hasShortTimeouts ? answersWithShortTimeouts : answersWithLongTimeouts,
  );
  return fate({ question, written, chance });
}

interface Draw {
  readonly question: Question;
  readonly written: Written;
  readonly chance: Chance;
}

type MakeAnswer = (draw: Draw) => PlannedAnswer;

const whole: Expected = { kind: "whole", hasUsage: true };
const failure: Expected = { kind: "failure" };
const anything: Expected = { kind: "anything" };

/** It comes as it should, whole or in pieces. */
const deliverValid: MakeAnswer = ({ question, written, chance }) => {
  const body = bodyOf(written);
  const frame = framed(headOf(question.stream, chance), body, chance);
  return { delivery: delivered(frame, chance), body, expected: whole, isLast: false };
};

/** Directly after its end follows what looks like the answer to the next request, in the same write or the next. */
const deliverWithSurplus: MakeAnswer = ({ question, written, chance }) => {
  const body = bodyOf(written);
  const frame = framed(headOf(question.stream, chance), body, chance, ["length", "chunked"]);
  const next = Buffer.from(`{"object":"response","choices":[{"message":{"content":"${poison}"}}]}`);
  const surplus = chance.pick([
    framed(headOf(false, chance), next, chance).bytes,
    Buffer.from(`HTTP/1.1 408 ${poison}\r\nContent-Length: 0\r\n\r\n`),
    Buffer.from(poison),
  ]);
  const bytes = Buffer.concat([frame.bytes, surplus]);
  const end = chance.pick(["keep", "keep", "fin"] as const);
  const cuts = chance.chance(0.5) ? [frame.bytes.length] : [];
  const delivery = { bytes, cuts, pauseMs: 0, end };
  return { delivery, body, expected: whole, isLast: false };
};

/** Its connection ends somewhere, or it falls silent. */
const cutOff: MakeAnswer = ({ question, written, chance }) => {
  const body = bodyOf(written);
  const frame = framed(headOf(question.stream, chance), body, chance);
  const length = chance.below(frame.bytes.length);
  const end = malformedEnd(question, chance);
  const delivery = { ...drawDelivery(frame.bytes.subarray(0, length), chance), end };
  const expected = end === "reset" ? anything : expectedOfCut(question, written, frame, length);
  // Where the frame is cut within a piece, what came of it is part of the body all the same.
  return { delivery, body, expected, isLast: false };
};

/** What so many bytes of an answer come to. */
function expectedOfCut(
  { stream, route }: Question,
  { events, finish }: Written,
  frame: Framed,
  length: number,
): Expected {
  // Without its last chunk an answer lacks its end, be it but the end of that.
  const isNearEnd = frame.way === "chunked" && length > frame.bytes.length - trailerBytesMax;
  if (!stream) return isNearEnd ? anything : failure;
  const arrived = arrivedBytes(frame, length);
  const endOf = (index: number): number => Buffer.byteLength(events.slice(0, index + 1).join(""));
  if (arrived === undefined) return anything;
  // Whether an event counts whose blank line is missing is the interface's to say.
  const firstLine = (events[finish.first] ?? "").trimEnd();
  const begins = endOf(finish.first - 1);
  if (arrived < begins + Buffer.byteLength(firstLine)) return failure;
  const isWhole = arrived >= endOf(finish.last) && !route.hasShortTimeouts;
  return isWhole ? { kind: "whole", hasUsage: false } : anything;
}

/** How much of the body is in so many bytes; undefined where that is not told without reading the chunks. */
function arrivedBytes({ headBytes, way }: Framed, length: number): number | undefined {
  if (way !== "chunked") return Math.max(length - headBytes, 0);
  return length > headBytes + chunkLineBytesMax ? undefined : 0;
}

const trailerBytesMax = 40;
const chunkLineBytesMax = 10;

/** The frame is sound, and what is in it is not. */
const malformedBody: MakeAnswer = ({ question, written, chance }) => {
  const body = changedBody(written.events, chance);
  const frame = framed(headOf(question.stream, chance), body, chance);
  return { delivery: delivered(frame, chance), body, expected: anything, isLast: false };
};

const malformedFrame: MakeAnswer = ({ question, written, chance }) => {
  const body = chance.chance(0.8) ? bodyOf(written) : changedBody(written.events, chance);
  const bytes = malformedFraming(body, question.stream, chance);
  const delivery = { ...drawDelivery(bytes, chance), end: malformedEnd(question, chance) };
  const isLast = !/^HTTP\/1\.[01] 200\b/.test(bytes.toString("latin1", 0, 16));
  return { delivery, body: undefined, expected: anything, isLast };
};

/** A refusal in the words of the interface. */
const refusing: MakeAnswer = ({ question, chance }) => {
  const { status, text, expected } = drawRefusal(question, chance);
  const head = { status, contentType: "application/json" };
  const frame = framed(head, Buffer.from(text), chance);
  return { delivery: delivered(frame, chance), body: undefined, expected, isLast: true };
};

/** The status is good, and the answer says that it failed, at once or after something was said. */
const failing: MakeAnswer = ({ question, written, chance }) => {
  const { events, finish } = written;
  const said = question.stream ? events.slice(0, chance.below(finish.first + 1)) : [];
  const body = Buffer.from([...said, drawFailure(question, chance)].join(""));
  const frame = framed(headOf(question.stream, chance), body, chance);
  const expected: Expected = question.endpoint === "responses" ? { kind: "failed" } : failure;
  return { delivery: delivered(frame, chance), body, expected, isLast: false };
};

/** Any status, with any body: also with one that would be a whole answer. */
const oddStatus: MakeAnswer = ({ question, written, chance }) => {
  const body = chance.pick([
    bodyOf(written),
    changedBody(written.events, chance),
    Buffer.from("<html><body>502 Bad Gateway</body></html>"),
    Buffer.from(""),
    Buffer.from('{"error":"'.repeat(2000)),
    Buffer.from("x".repeat(100_000)),
  ]);
  const status = chance.chance(0.5) ? 100 + chance.below(900) : chance.pick(statuses);
  const frame = framed({ ...headOf(question.stream, chance), status }, body, chance);
  const end = malformedEnd(question, chance);
  const delivery = { ...drawDelivery(frame.bytes, chance), end };
  return { delivery, body: undefined, expected: anything, isLast: true };
};

const statuses = [201, 202, 204, 205, 206, 301, 302, 304, 307, 308, 400, 404, 421, 451, 503];

const answersWithLongTimeouts: readonly (readonly [number, MakeAnswer])[] = [
  [6, deliverValid],
  [1, deliverWithSurplus],
  [4, cutOff],
  [6, malformedBody],
  [4, malformedFrame],
  [2, refusing],
  [1, failing],
  [1, oddStatus],
];
const answersWithShortTimeouts: readonly (readonly [number, MakeAnswer])[] = [
  [3, cutOff],
  [3, malformedFrame],
  [1, malformedBody],
  [1, oddStatus],
];

function bodyOf({ events }: Written): Buffer {
  return Buffer.from(events.join(""));
}

/** An answer whose frame ends; one that only the connection ends is followed by that. */
function delivered({ bytes, way }: Framed, chance: Chance): Delivery {
  const end = way === "close" ? "fin" : chance.pick(["keep", "keep", "keep", "fin"] as const);
  return { ...drawDelivery(bytes, chance), end };
}

/** A patient gateway is not let wait for what never comes. */
function malformedEnd({ route }: Question, chance: Chance): Delivery["end"] {
  return chance.pick(
    route.hasShortTimeouts
      ? (["keep", "keep", "fin"] as const)
      : (["fin", "fin", "reset"] as const),
  );
}

function drawDelivery(bytes: Buffer, chance: Chance): Omit<Delivery, "end"> {
  const count = chance.chance(0.5) ? 0 : 1 + chance.below(6);
  const cuts = several(count, () => chance.below(bytes.length + 1)).toSorted((a, b) => a - b);
  return { bytes, cuts, pauseMs: chance.chance(0.3) ? chance.below(3) : 0 };
}

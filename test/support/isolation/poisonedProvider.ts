import { chanceOf, weighed, type Chance } from "../seededRandom.ts";
import { startRawServer, type RawPeer } from "../provider/rawServer.ts";
import { piece, streamEnd, streamHead } from "../provider/scriptedProvider.ts";
import { bodyOf, everyForm, tagOf, tagsIn, tagText, type Tag, type TaggedForm } from "./tag.ts";

export interface PoisonCounts {
  /** Came on a connection that had carried another before. */
  reused: number;
  /** Answered before they were there whole. */
  early: number;
  /** Bytes of another answer followed the end. */
  surplus: number;
  /** A kept connection was closed instead of an answer, or after one. */
  closed: number;
  /** Bytes of another answer were sent on a connection without a request. */
  unasked: number;
}

/**
 * A provider that answers with the tag of each request, at `/LANE/v1` for each lane. It keeps its connections, and does
 * on them what it should not: always before the next request can be on its way, for what comes later is an answer to
 * that as far as anybody can tell.
 */
export interface PoisonedProvider {
  readonly port: number;
  readonly openCount: number;
  readonly counts: PoisonCounts;
  /** Problems of the requests that arrived. */
  readonly problems: readonly string[];
  /** Tags of requests that must not come here; to be added to before they are sent. */
  readonly forbidden: Set<string>;
  /** No request is in flight on any connection of the lane. */
  isQuiet(lane: string): boolean;
  /** Sends bytes of other answers on all idle connections of the lane. Returns the number of connections. */
  poison(lane: string): number;
  stop(): void;
}

export function startPoisonedProvider(seed: number): PoisonedProvider {
  const mixed: Mixed = {
    seed,
    counts: { reused: 0, early: 0, surplus: 0, closed: 0, unasked: 0 },
    problems: [],
    forbidden: new Set(),
    latest: new Map(),
  };
  const connections = new Set<LaneConnection>();
  const server = startRawServer(async (peer) => {
    const connection = new LaneConnection(peer, mixed);
    connections.add(connection);
    await peer.closed;
    connections.delete(connection);
  });
  const ofLane = (lane: string) => [...connections].filter((one) => one.lane === lane);
  return {
    port: server.port,
    get openCount() {
      return connections.size;
    },
    counts: mixed.counts,
    problems: mixed.problems,
    forbidden: mixed.forbidden,
    isQuiet: (lane) => ofLane(lane).every(({ isIdle }) => isIdle),
    poison(lane) {
      const idle = ofLane(lane).filter(({ isIdle }) => isIdle);
      for (const connection of idle) connection.poison();
      return idle.length;
    },
    stop: () => server.stop(),
  };
}

interface Mixed {
  readonly seed: number;
  readonly counts: PoisonCounts;
  readonly problems: string[];
  readonly forbidden: Set<string>;
  /** The latest request of each tenant. */
  readonly latest: Map<number, Tag>;
}

interface TaggedRequest {
  readonly form: TaggedForm;
  readonly tag: Tag;
  readonly chance: Chance;
}

/** A body of this length or more is answered when this much of it has arrived. */
const EARLY_BYTES = 4096;
const LONG_BODY_BYTES = 100_000;
const slowMsMax = 12;
/** The delay of a few answers: long after an impatient client disconnected. */
const verySlowMsMax = 150;

class LaneConnection {
  lane = "";
  readonly #peer: RawPeer;
  readonly #mixed: Mixed;
  readonly #serialChance: Chance;
  #unread: Buffer = Buffer.alloc(0);
  /** The missing bytes of a request that was answered early. */
  #toSkip = 0;
  #served = 0;
  #isServing = false;

  constructor(peer: RawPeer, mixed: Mixed) {
    this.#peer = peer;
    this.#mixed = mixed;
    this.#serialChance = chanceOf(mixed.seed, -1 - peer.index);
    peer.relayTo((bytes) => this.#received(bytes));
  }

  /** It has answered a request, and nothing has arrived since. */
  get isIdle(): boolean {
    return !this.#isServing && this.#served > 0 && this.#unread.length === 0 && this.#toSkip === 0;
  }

  poison(): void {
    this.#mixed.counts.unasked += 1;
    void this.#send(this.#foreign(undefined, this.#serialChance));
  }

  #received(bytes: Buffer): void {
    const skipped = Math.min(this.#toSkip, bytes.length);
    this.#toSkip -= skipped;
    this.#unread = Buffer.concat([this.#unread, bytes.subarray(skipped)]);
    if (!this.#isServing) void this.#serve();
  }

  async #serve(): Promise<void> {
    this.#isServing = true;
    for (let request = this.#take(); request !== undefined; request = this.#take()) {
      await this.#answer(request);
      this.#served += 1;
    }
    this.#isServing = false;
  }

  /** The next request, if enough of it has arrived. */
  #take(): TaggedRequest | undefined {
    const headEnd = this.#unread.indexOf("\r\n\r\n") + 4;
    if (headEnd < 4) return undefined;
    const head = this.#unread.toString("latin1", 0, headEnd);
    const bodyBytes = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
    const isLong = bodyBytes > LONG_BODY_BYTES;
    if (this.#unread.length < headEnd + (isLong ? EARLY_BYTES : bodyBytes)) return undefined;
    const taken = this.#unread.subarray(0, headEnd + bodyBytes);
    this.#unread = this.#unread.subarray(taken.length);
    this.#toSkip = headEnd + bodyBytes - taken.length;
    this.#mixed.counts.early += this.#toSkip > 0 ? 1 : 0;
    return this.#read(head, taken.toString("latin1", headEnd));
  }

  #read(head: string, body: string): TaggedRequest {
    const { counts, latest, problems, forbidden, seed } = this.#mixed;
    const [, lane = "", path = ""] = /^POST \/([^/]*)\/v1\/([a-z/]+) HTTP/.exec(head) ?? [];
    const [prompt = "", ...others] = tagsIn(body);
    const tag = tagOf(prompt);
    this.lane = lane;
    if (this.#served > 0) counts.reused += 1;
    if (forbidden.has(prompt)) problems.push(`${prompt} names what is not its own, and came`);
    // The other tag is that of the previous response.
    if (prompt === "" || others.some((other) => tagOf(other).tenant !== tag.tenant))
      problems.push(`a request bears ${[prompt, ...others].join(", ")}`);
    latest.set(tag.tenant, tag);
    const isStream = /"stream":true/.test(body);
    const form = everyForm[(path === "responses" ? 2 : 0) + (isStream ? 1 : 0)] ?? "chat";
    return { form, tag, chance: chanceOf(seed, tag.tenant * 1_000_003 + tag.number) };
  }

  async #answer(request: TaggedRequest): Promise<void> {
    const { chance } = request;
    const { counts } = this.#mixed;
    // A fresh connection must not be closed. A kept one may be: then the gateway tries another.
    if (this.#served > 0 && chance.chance(0.02)) {
      counts.closed += 1;
      this.#close(chance);
      return;
    }
    const pieces = piecesOf(request);
    if (chance.chance(0.12)) {
      counts.surplus += 1;
      // In the same write as the end of the answer, so that the gateway reads both at once.
      pieces.push(
        Buffer.concat([pieces.pop() ?? Buffer.alloc(0), this.#foreign(request.tag, chance)]),
      );
    }
    const isVerySlow = chance.chance(0.1);
    const isSlow = isVerySlow || chance.chance(0.4);
    const pauseMsMax = isVerySlow ? verySlowMsMax : slowMsMax;
    for (const bytes of isSlow ? pieces : [Buffer.concat(pieces)]) {
      if (isSlow) await Bun.sleep(chance.below(pauseMsMax));
      await this.#send(bytes);
    }
    if (!chance.chance(0.04)) return;
    counts.closed += 1;
    await Bun.sleep(chance.below(slowMsMax));
    this.#close(chance);
  }

  #close(chance: Chance): void {
    this.#peer[chance.pick(["fin", "reset"] as const)]();
  }

  /** An answer for another client: whole, without a head, or garbage. */
  #foreign(own: Tag | undefined, chance: Chance): Buffer {
    const others = [...this.#mixed.latest.values()].filter(({ tenant }) => tenant !== own?.tenant);
    const tag = others.length > 0 ? chance.pick(others) : { tenant: 99, number: 0 };
    const answer = { tag, form: chance.pick(everyForm), chance };
    const whole = Buffer.concat(piecesOf(answer));
    return weighed(chance, [
      [5, whole],
      [2, Buffer.from(bodyOf(answer.form, tag).join(""))],
      [1, whole.subarray(0, 1 + chance.below(whole.length))],
      [1, Buffer.from(`HTTP/1.1 408 ${tagText(tag)}\r\nconnection: close\r\n\r\n`)],
      [1, piece(`data: ${tagText(tag)}\n\n`)],
    ]);
  }

  /** Bytes for a closed connection are dropped. */
  async #send(bytes: Uint8Array): Promise<void> {
    await this.#peer.send(bytes).catch(() => undefined);
  }
}

/** The bytes of an answer, in pieces that may be sent separately. */
function piecesOf({ form, tag, chance }: TaggedRequest): Buffer[] {
  const texts = bodyOf(form, tag);
  if (form.endsWith("stream"))
    return [Buffer.from(streamHead), ...texts.map(piece), Buffer.from(streamEnd)];
  const body = texts.join("");
  const isChunked = chance.chance(0.3);
  const framing = isChunked ? "transfer-encoding: chunked" : `content-length: ${body.length}`;
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`;
  const cut = chance.below(body.length);
  const parts = [body.slice(0, cut), body.slice(cut)].filter((part) => part !== "");
  return isChunked
    ? [Buffer.from(head), ...parts.map(piece), Buffer.from(streamEnd)]
    : [Buffer.from(head), ...parts.map((part) => Buffer.from(part))];
}

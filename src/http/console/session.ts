import type { Clock } from "../../lib/clock.ts";
import type { Random } from "../../lib/random.ts";
import { sha256 } from "../../lib/sha256.ts";

const SECRET_BYTES = 32;
const COOKIE_NAME_BYTES = 6;
/** A token has 256 bits. Ten wrong ones are no mistake of a person. */
const WRONG_TOKENS_MAX = 10;
const IDLE_MS_MAX = 60 * 60 * 1000;

export type SessionEnd = "wrongTokens" | "idle" | "asked";

/** What the token is exchanged for. Each request needs both. */
export interface SessionSecrets {
  /** Scripts cannot read it. Browsers send it to every port of the host, so it proves too little alone. */
  readonly cookie: string;
  /** The value of a header. The page keeps it where only its own origin can read it, and an origin has a port. */
  readonly pageSecret: string;
}

/**
 * The one session of a console. Its token is exchanged once for a cookie and the page's secret. Ten wrong tokens, an hour
 * without use, or the user end it for ever.
 */
export class ConsoleSession {
  /** For the address that the command prints. */
  readonly token: string;
  /** Cookies ignore the port. A name for each console keeps two on one machine apart. */
  readonly cookieName: string;
  readonly ended: Promise<SessionEnd>;
  readonly #secrets: SessionSecrets;
  readonly #clock: Clock;
  readonly #end: (reason: SessionEnd) => void;
  #isTokenUsed = false;
  #isEnded = false;
  #wrongTokens = 0;
  #usedAtMs: number;

  constructor(clock: Clock, random: Random) {
    const secret = (): string =>
      random.bytes(SECRET_BYTES).toBase64({ alphabet: "base64url", omitPadding: true });
    this.token = secret();
    this.#secrets = { cookie: secret(), pageSecret: secret() };
    this.cookieName = `tollgate_console_${random.bytes(COOKIE_NAME_BYTES).toHex()}`;
    this.#clock = clock;
    this.#usedAtMs = clock.monotonicMs();
    const { promise, resolve } = Promise.withResolvers<SessionEnd>();
    this.ended = promise;
    this.#end = resolve;
  }

  /** The secrets for the right token, once. Undefined for a wrong token and for the second use. */
  exchange(token: string): SessionSecrets | undefined {
    if (this.#isOver()) return undefined;
    if (this.#isTokenUsed || !isEqual(token, this.token)) {
      this.#wrongTokens += 1;
      if (this.#wrongTokens >= WRONG_TOKENS_MAX) this.#endFor("wrongTokens");
      return undefined;
    }
    this.#isTokenUsed = true;
    this.#use();
    return this.#secrets;
  }

  /**
   * Whether the header has the cookie of the session and `pageSecret` is the page's. `isUse`: a person acts, so the
   * hour begins anew. The header may have several cookies of this name, because another port of the host can add some.
   */
  accepts(cookieHeader: string, pageSecret: string, isUse: boolean): boolean {
    if (this.#isOver()) return false;
    const own = `${this.cookieName}=${this.#secrets.cookie}`;
    const isAccepted =
      this.#isTokenUsed &&
      isEqual(pageSecret, this.#secrets.pageSecret) &&
      cookieHeader.split(/;\s*/).some((cookie) => isEqual(cookie, own));
    if (isAccepted && isUse) this.#use();
    return isAccepted;
  }

  /** Ends the session if nobody has used it for an hour. Call it now and then. */
  endIfIdle(): void {
    this.#isOver();
  }

  end(): void {
    this.#endFor("asked");
  }

  #use(): void {
    this.#usedAtMs = this.#clock.monotonicMs();
  }

  #isOver(): boolean {
    if (this.#clock.monotonicMs() - this.#usedAtMs > IDLE_MS_MAX) this.#endFor("idle");
    return this.#isEnded;
  }

  #endFor(reason: SessionEnd): void {
    this.#isEnded = true;
    this.#end(reason);
  }
}

/** Compares in the same time, whatever the texts are. */
function isEqual(one: string, other: string): boolean {
  return crypto.timingSafeEqual(sha256(one), sha256(other));
}

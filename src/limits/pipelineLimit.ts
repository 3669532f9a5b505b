/**
 * The answers in one turn of the event loop that are not counted by connection, and then the most of one connection.
 */
const UNCOUNTED_MAX = 50;
const ANSWERS_MAX = 50;

/**
 * Limits the answers to one connection in one turn of the event loop. A client may send thousands of requests in one
 * write, and Bun answers those that wait for nothing one after the other, before it looks at another connection.
 */
export class PipelineLimit {
  #answers = 0;
  readonly #ofConnection = new Map<string, number>();

  /** Counts a request. False if its connection has too many in this turn. `connection` tells its name, if it has one. */
  admit(connection: () => string | undefined): boolean {
    if (this.#answers === 0) setImmediate(this.#nextTurn);
    this.#answers += 1;
    if (this.#answers <= UNCOUNTED_MAX) return true;
    const name = connection();
    if (name === undefined) return true;
    const count = (this.#ofConnection.get(name) ?? 0) + 1;
    this.#ofConnection.set(name, count);
    return count <= ANSWERS_MAX;
  }

  readonly #nextTurn = (): void => {
    this.#answers = 0;
    this.#ofConnection.clear();
  };
}

/**
 * Indexes of choices, in the order in which they were added. Most answers have one choice. A Set with one number takes 450
 * bytes, which every open stream would keep.
 */
export class ChoiceSet {
  #only: number | undefined;
  /** All of them, once there is a second one. */
  #all: Set<number> | undefined;

  get size(): number {
    return this.#all?.size ?? (this.#only === undefined ? 0 : 1);
  }

  has(choice: number): boolean {
    return this.#all?.has(choice) ?? this.#only === choice;
  }

  add(choice: number): void {
    if (this.#all) this.#all.add(choice);
    else if (this.#only === undefined) this.#only = choice;
    else if (this.#only !== choice) this.#all = new Set([this.#only, choice]);
  }

  delete(choice: number): void {
    if (this.#all) this.#all.delete(choice);
    else if (this.#only === choice) this.#only = undefined;
  }

  without(others: ChoiceSet): readonly number[] {
    const all = this.#all ?? (this.#only === undefined ? [] : [this.#only]);
    return [...all].filter((choice) => !others.has(choice));
  }
}

import { snapshotOf } from "./booksAsModel.ts";
import type { MoneyModel } from "./moneyModel.ts";

/** What the writer was asked for and has not answered yet, in its order. */
export type AskedWrite =
  | { readonly kind: "open"; readonly id: string }
  | {
      readonly kind: "end";
      readonly id: string;
      readonly status: "done" | "failed" | "cancelled";
      readonly cost: bigint;
    };

/** One way in which things may have come about so far. */
interface World {
  readonly model: MoneyModel;
  /** What the writer has answered, or will, to each write that it has committed here. */
  readonly answers: readonly string[];
}

/**
 * Everything that the books may look like while writes are under way: nobody but the writer knows when it
 * commits. Each thing that is seen from outside rules some of it out; where nothing is left, a rule is broken.
 */
export class LedgerWorlds {
  #worlds: readonly World[];
  readonly #asked: AskedWrite[] = [];

  constructor(model: MoneyModel) {
    this.#worlds = [{ model, answers: [] }];
  }

  /** The writer is asked for something. */
  ask(write: AskedWrite): void {
    this.#asked.push(write);
  }

  /** Something happens that cannot be told from outside. */
  happens(change: (model: MoneyModel) => void): void {
    for (const { model } of this.#worlds) change(model);
  }

  /** Something happens at once, at whatever moment between the commits, and this is seen of it. */
  see(what: string, seen: string, happens: (model: MoneyModel) => string): void {
    const expected = new Set<string>();
    const worlds = this.#worlds.flatMap((world) =>
      this.#futures(world).filter(({ model }) => {
        const here = happens(model);
        expected.add(here);
        return here === seen;
      }),
    );
    this.#remain(worlds, `${what}: ${seen}, but not ${[...expected].join(" or ")}`);
  }

  /** The writer has answered everything. */
  settle(answers: readonly string[]): void {
    const expected = new Set<string>();
    const seen = answers.join(", ");
    const worlds = this.#worlds
      .map((world) => this.#futures(world).at(-1) ?? world)
      .filter((world) => {
        expected.add(world.answers.join(", "));
        return world.answers.join(", ") === seen;
      });
    this.#asked.length = 0;
    const settled = worlds.map(({ model }) => ({ model, answers: [] }));
    this.#remain(settled, `the writer answered ${seen}, but not ${[...expected].join(" or ")}`);
  }

  /** A world for each number of further commits, none first. */
  #futures(world: World): readonly World[] {
    const futures = [world];
    for (const write of this.#asked.slice(world.answers.length)) {
      const { model, answers } = futures.at(-1) ?? world;
      const next = model.copy();
      futures.push({ model: next, answers: [...answers, commit(next, write)] });
    }
    return futures;
  }

  #remain(worlds: readonly World[], problem: string): void {
    if (worlds.length === 0) throw new Error(problem);
    // Worlds that came to be the same are one.
    const distinct =
      worlds.length > 1 ? new Map(worlds.map((world) => [textOf(world), world])) : worlds;
    this.#worlds = [...distinct.values()];
  }
}

/** How the writer answers a write in the model's words. */
function commit(model: MoneyModel, write: AskedWrite): string {
  if (write.kind === "open") return model.open(write.id) ? "opened" : "refused";
  const end = model.end(write.id, write.status, write.cost);
  return end ? `charged ${end.charge} of ${end.charge + end.writeOff}` : "refused";
}

function textOf({ model, answers }: World): string {
  return `${answers.length} ${snapshotOf(model)}`;
}

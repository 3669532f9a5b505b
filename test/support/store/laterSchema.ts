import { knownSchema, type KnownSchema } from "../../../src/store/postgres/schema/migrations.ts";

/** A release after those that the program knows, with one migration of these statements. */
export interface LaterRelease {
  readonly oldest: number;
  readonly statements: readonly string[];
}

/** The schema with more releases. */
export function laterSchema(...releases: readonly LaterRelease[]): KnownSchema {
  const nameOf = (index: number) => `later_${index}`;
  return {
    releases: [
      ...knownSchema.releases,
      ...releases.map(({ oldest }, index) => ({ migrations: [nameOf(index)], oldest })),
    ],
    statements: (migration) =>
      releases.find((_, index) => nameOf(index) === migration)?.statements ??
      knownSchema.statements(migration),
  };
}

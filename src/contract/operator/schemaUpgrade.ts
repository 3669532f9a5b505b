import { Type, type Static } from "@sinclair/typebox";

/**
 * What `tollgate migrate-schema --json` prints. `applied`: the number of the schema of the database now; `known`: that of this
 * version. `releases`: what was applied, or with `--plan` what would be.
 */
export type SchemaUpgradeDocument = Static<typeof SchemaUpgradeDocument>;
export const SchemaUpgradeDocument = Type.Object({
  database: Type.String(),
  plan: Type.Boolean(),
  applied: Type.Integer({ minimum: 0 }),
  known: Type.Integer({ minimum: 1 }),
  releases: Type.Array(
    Type.Object({
      migrations: Type.Array(Type.String()),
      /** Whether replicas of the earlier version keep working after the upgrade. Null: the database was empty. */
      version_before_goes_on: Type.Union([Type.Boolean(), Type.Null()]),
    }),
  ),
});

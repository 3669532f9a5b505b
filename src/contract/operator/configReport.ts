import { Type, type Static } from "@sinclair/typebox";

/** What `tollgate check` says of the config. `file` is absent if the config is wrong. */
export type ConfigReport = Static<typeof ConfigReport>;
export const ConfigReport = Type.Object({
  ok: Type.Boolean(),
  file: Type.Optional(Type.String()),
  problems: Type.Array(Type.String()),
  warnings: Type.Array(Type.String()),
});

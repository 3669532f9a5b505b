import { Type, type Static } from "@sinclair/typebox";

/** What `tollgate check` says of the config. `file` is absent if the config is wrong. */
export type ConfigReport = Static<typeof ConfigReport>;
export const ConfigReport = Type.Object({
  ok: Type.Boolean(),
  file: Type.Optional(Type.String()),
  problems: Type.Array(Type.String()),
  warnings: Type.Array(Type.String()),
});

/** The problems and warnings of a config. `file` is undefined if the config is wrong. */
export function configReport(found: {
  readonly file?: string;
  readonly problems?: readonly string[];
  readonly warnings?: readonly string[];
}): ConfigReport {
  const { file, problems = [], warnings = [] } = found;
  const ok = problems.length === 0;
  return {
    ok,
    ...(file !== undefined && { file }),
    problems: [...problems],
    warnings: [...warnings],
  };
}

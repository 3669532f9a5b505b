/**
 * Compares the schema modules with `drizzle/` and writes the differences there as SQL: `bun run migration`, with options of
 * `drizzle-kit generate` such as `--name vouchers`. With `sqlite` or `postgres` first: for this engine only, such as
 * `bun run migration postgres --custom --name rules`, which writes an empty file.
 */
import { Glob } from "bun";
import { join, resolve } from "node:path";

const projectRoot = resolve(import.meta.dir, "..");

const engines = {
  sqlite: { dialect: "sqlite", schema: "src/store/schema/schema.ts" },
  postgres: { dialect: "postgresql", schema: "src/store/postgres/schema/schema.ts" },
} as const;
type Engine = keyof typeof engines;

function isEngine(text: string | undefined): text is Engine {
  return text !== undefined && Object.hasOwn(engines, text);
}

async function generate(engine: Engine, options: readonly string[]): Promise<void> {
  const { dialect, schema } = engines[engine];
  const places = [`--dialect=${dialect}`, `--schema=${schema}`, `--out=drizzle/${engine}`];
  // With node on the path drizzle-kit would run under node.
  const command = [process.execPath, "--bun", "x", "drizzle-kit", "generate"];
  const child = Bun.spawn([...command, ...places, ...options], {
    cwd: projectRoot,
    stdio: ["inherit", "inherit", "inherit"],
  });
  if ((await child.exited) !== 0) throw new Error(`drizzle-kit failed for ${engine}`);
  await keepLastSnapshot(engine);
  if (engine === "postgres") await nameNoSchema();
}

/** drizzle-kit compares with the last one only. */
async function keepLastSnapshot(engine: Engine): Promise<void> {
  const folder = join(projectRoot, "drizzle", engine, "meta");
  const names = await Array.fromAsync(new Glob("*_snapshot.json").scan(folder));
  for (const name of names.toSorted().slice(0, -1)) await Bun.file(join(folder, name)).delete();
}

/** The connection says in which schema the tables are. drizzle-kit names `public` in foreign keys. */
async function nameNoSchema(): Promise<void> {
  const folder = join(projectRoot, "drizzle/postgres");
  for await (const name of new Glob("*.sql").scan(folder)) {
    const text = await Bun.file(join(folder, name)).text();
    if (text.includes('"public".'))
      await Bun.write(join(folder, name), text.replaceAll('"public".', ""));
  }
}

const [first, ...rest] = process.argv.slice(2);
if (isEngine(first)) await generate(first, rest);
else
  for (const engine of ["sqlite", "postgres"] as const)
    await generate(engine, process.argv.slice(2));

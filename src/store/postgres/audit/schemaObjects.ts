import type { Connection } from "../../connection.ts";

/** An object of the schema that can refuse or change a row. */
export interface SchemaObject {
  /** Kind, table and name of the object, for example `trigger ledger.ledger_keeps`. */
  readonly name: string;
  /** Each version of PostgreSQL gives the same text, also after a dump was restored. */
  readonly definition: string;
  readonly table: string;
  /** A disabled trigger, a foreign key that is not enforced, or an index that is not valid. */
  readonly isOff: boolean;
  /** A foreign object of this kind can refuse or change a row. */
  readonly mayRefuse: boolean;
}

/** How an object is off. */
const OFF = "is switched off";
const MISSING = "is missing";

/** Versions before 16 write the names of tables before the columns of a view. */
const VIEW = `regexp_replace(pg_get_viewdef(oid), '[[:alpha:]_]+[.]', '', 'g')`;

const OBJECTS = `WITH tables AS (
  SELECT oid, relname, relkind, relpersistence, relrowsecurity FROM pg_class
  WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind IN ('r', 'p', 'v')
), objects AS (
  SELECT CASE relkind WHEN 'v' THEN 'view ' ELSE 'table ' END || relname AS name, relname AS "table",
      CASE WHEN relkind = 'v' THEN ${VIEW} ELSE '' END
      || CASE WHEN relpersistence = 'p' THEN '' ELSE 'lost after a crash' END
      || CASE WHEN relrowsecurity THEN ' row security' ELSE '' END AS definition,
      false AS "isOff", false AS "mayRefuse"
    FROM tables
  UNION ALL SELECT 'column ' || relname || '.' || attname, relname,
      format_type(atttypid, atttypmod) || coalesce(' COLLATE ' || quote_ident(collname), '')
      || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
      || CASE WHEN attidentity = '' THEN '' ELSE ' IDENTITY ' || CAST(attidentity AS text) END
      || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), ''), false, false
    FROM pg_attribute JOIN tables ON tables.oid = attrelid
      LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      LEFT JOIN pg_collation ON pg_collation.oid = attcollation AND collname <> 'default'
    WHERE attnum > 0 AND NOT attisdropped
  -- Version 18 has a constraint for each NOT NULL. Constraints of triggers are triggers.
  UNION ALL SELECT 'constraint ' || relname || '.' || conname, relname, pg_get_constraintdef(pg_constraint.oid),
      EXISTS (SELECT 1 FROM pg_trigger WHERE tgconstraint = pg_constraint.oid AND tgenabled IN ('D', 'R')), true
    FROM pg_constraint JOIN tables ON tables.oid = conrelid WHERE contype NOT IN ('n', 't')
  UNION ALL SELECT 'index ' || indexes.relname, tables.relname, pg_get_indexdef(indexrelid),
      NOT (indisvalid AND indisready), indisunique OR indexprs IS NOT NULL OR indpred IS NOT NULL
    FROM pg_index JOIN tables ON tables.oid = indrelid JOIN pg_class AS indexes ON indexes.oid = indexrelid
  -- A dump nests the parts of a condition otherwise.
  UNION ALL SELECT 'trigger ' || relname || '.' || tgname, relname, translate(pg_get_triggerdef(pg_trigger.oid), '()', ''),
      tgenabled IN ('D', 'R'), true
    FROM pg_trigger JOIN tables ON tables.oid = tgrelid WHERE NOT tgisinternal
  UNION ALL SELECT 'rule ' || relname || '.' || rulename, relname, '', false, true
    FROM pg_rewrite JOIN tables ON tables.oid = ev_class WHERE rulename <> '_RETURN'
  UNION ALL SELECT 'function ' || proname, '', encode(sha256(convert_to(prosrc, 'UTF8')), 'hex')
      || CASE WHEN prosecdef THEN ' SECURITY DEFINER' ELSE '' END
      || coalesce(' SET ' || array_to_string(proconfig, ' '), ''), false, false
    FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
    WHERE pronamespace = CAST(current_schema() AS regnamespace) AND lanname = 'plpgsql'
)
SELECT name, "table", "isOff", "mayRefuse",
  trim(regexp_replace(replace(definition, quote_ident(current_schema()) || '.', ''), '\\s+', ' ', 'g')) AS definition
FROM objects`;

/** The objects of the schema, sorted by name. */
export async function schemaObjects(connection: Connection): Promise<readonly SchemaObject[]> {
  const objects = await connection.rows<SchemaObject>(OBJECTS);
  return objects.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The objects of a whole schema as lines of a file: names and definitions. */
export function objectLines(objects: readonly SchemaObject[]): readonly string[] {
  return objects.map(({ name, definition }) => `${name}: ${definition}`.trimEnd());
}

/**
 * A line for each object that is missing, changed or switched off, and for each foreign one that can change or refuse a
 * row. `expected`: the lines of the file. Without it only what is switched off is told.
 */
export function schemaProblems(
  found: readonly SchemaObject[],
  expected: readonly string[] | undefined,
): readonly string[] {
  const off = found.filter(({ isOff }) => isOff).map(({ name }) => `${name} ${OFF}`);
  if (expected === undefined) return off;
  const definitions = new Map(
    expected.map((line) => {
      const end = line.indexOf(":");
      return [line.slice(0, end), line.slice(end + 1).trimStart()] as const;
    }),
  );
  const own = new Map(found.map((object) => [object.name, object]));
  const isThere = (table: string): boolean => own.has(`table ${table}`) || own.has(`view ${table}`);
  const wrong = [...definitions].flatMap(([name, definition]) => {
    const object = own.get(name);
    // What belongs to a missing table is missing with it.
    const table = / (\w+)\./.exec(name)?.[1] ?? / ON (\w+) USING /.exec(definition)?.[1];
    if (object === undefined)
      return table === undefined || isThere(table) ? [`${name} ${MISSING}`] : [];
    return object.definition === definition ? [] : [`${name} was changed`];
  });
  const foreign = found
    .filter(
      ({ name, table, mayRefuse }) =>
        mayRefuse && !definitions.has(name) && definitions.has(`table ${table}`),
    )
    .map(({ name }) => `${name} is not the program's own: drop it`);
  return [...wrong, ...off, ...foreign];
}

/** Some table or column is missing, so that the rules cannot be asked. */
export function isUnreadable(problems: readonly string[]): boolean {
  return problems.some((line) => /^(?:table|column) /.test(line) && line.endsWith(MISSING));
}

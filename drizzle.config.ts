import { defineConfig } from "drizzle-kit";

// `bun run migration` compares the schema with drizzle/ and writes the difference there as SQL.
export default defineConfig({
  dialect: "sqlite",
  schema: "./src/store/schema/schema.ts",
  out: "./drizzle",
});

import { join } from "node:path";

const webFolder = join(import.meta.dir, "../../../src/web");

/**
 * Imports a module of src/web whose code chooses the language when it loads. The names of a browser that it needs exist
 * only until it is loaded, so that libraries in other tests do not take this process for a browser.
 */
export async function importWeb<Module>(path: string): Promise<Module> {
  const globals: Record<string, unknown> = {
    document: { documentElement: {} },
    navigator: { languages: ["en-US"] },
  };
  const before = Object.keys(globals).map(
    (name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const,
  );
  for (const [name, value] of Object.entries(globals))
    Object.defineProperty(globalThis, name, { value, configurable: true });
  try {
    return (await import(join(webFolder, path))) as Module;
  } finally {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else Reflect.deleteProperty(globalThis, name);
    }
  }
}

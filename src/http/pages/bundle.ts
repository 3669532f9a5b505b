import { join } from "node:path";

/** The pages: each is a folder of src/web with an `index.html`. */
export const pageNames = ["page", "console"] as const;
export type PageName = (typeof pageNames)[number];

/** The folder in the path of every file but the HTML. */
export const ASSETS_PATH = "/assets/";

/** The compressed forms that a build makes of each file, with the ending of their names. */
export const encodings = { br: ".br", gzip: ".gz" } as const;
export type Encoding = keyof typeof encodings;

/** One file of a page. Its name has a hash of its content, unless it is `index.html`. */
export interface PageFile extends Partial<Readonly<Record<Encoding, Bytes>>> {
  readonly name: string;
  readonly identity: Bytes;
}

type Bytes = Uint8Array<ArrayBuffer>;

/** Bundles a page from its sources. `root` is the project's folder. See {@link bundleHtml}. */
export async function bundlePage(root: string, page: PageName): Promise<readonly PageFile[]> {
  return await bundleHtml(join(root, "src/web", page, "index.html"));
}

/** Bundles an HTML file and all that it loads, minified. The same sources give the same bytes. Throws what Bun.build throws. */
export async function bundleHtml(path: string): Promise<readonly PageFile[]> {
  const { outputs } = await Bun.build({
    entrypoints: [path],
    target: "browser",
    minify: true,
    // Relative, because a proxy may serve the page below a path.
    publicPath: `.${ASSETS_PATH}`,
    naming: { entry: "[name].[ext]", chunk: "[name]-[hash].[ext]", asset: "[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  return Promise.all(
    outputs.map(async (output) => ({
      name: output.path.replace(/^.*\//, ""),
      identity: new Uint8Array(await output.arrayBuffer()),
    })),
  );
}

import type { Browser, Page } from "playwright-core";
import type { CliFolder } from "../binary/cli.ts";
import { startConsole } from "../binary/consoleProcess.ts";
import { settled } from "./settled.ts";
import { visit, type VisitOptions } from "./visit.ts";

/** Starts a console in the folder, opens it as `visit` does, and ends it. `work` begins when the overview is shown. */
export async function visitConsole<Result>(
  browser: Browser,
  cli: Pick<CliFolder, "folder" | "config">,
  work: (page: Page) => Promise<Result>,
  options?: VisitOptions,
): Promise<Result> {
  const console = await startConsole(cli);
  try {
    const opened = async (page: Page): Promise<Result> => {
      await page
        .getByRole("link", { name: "Audit" })
        .or(page.getByRole("link", { name: "Проверка" }))
        .waitFor();
      await settled(page);
      return await work(page);
    };
    return await visit(browser, console.address, opened, options);
  } finally {
    await console.stop();
  }
}

/** Shows the view at this fragment of the address, such as `accounts/alice`. Resolves when it is loaded. */
export async function showView(page: Page, fragment: string): Promise<void> {
  const { origin } = new URL(page.url());
  await page.goto(`${origin}/#/${fragment}`);
  await settled(page);
}

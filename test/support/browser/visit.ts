import type { Browser, BrowserContext, Page, Response } from "playwright-core";
import { saveScreenshot } from "./screenshots.ts";

/** A browser's settings, and what a visit may do beyond the usual. */
export interface VisitOptions {
  /** As `en-US`, the default, or `ru-RU`. */
  readonly language?: string;
  readonly colorScheme?: "light" | "dark";
  readonly viewport?: { readonly width: number; readonly height: number };
  /** The page's clock can be moved on: `page.clock`. */
  readonly hasOwnClock?: boolean;
  /** Statuses of 400 and above that the visit brings about on purpose. */
  readonly refusals?: readonly number[];
  /** The server ends during the visit. */
  readonly mayLoseConnection?: boolean;
}

/** Enough for a very busy machine; a page answers within a tenth of a second. */
const waitTimeoutMs = 20_000;

/** A request that is open for longer at the end of a visit is left alone. */
const answerTimeoutMs = 2000;

/** What a URL or a referrer must never contain. */
const secret = /sk-tg-|[?&]token=/;

/**
 * Opens an address in a browser profile of its own and runs `work` with it. Fails if the page reports an error or a
 * violation of its content security policy, sends a request to another origin, or shows a secret in the address of a
 * request.
 */
export async function visit<Result>(
  browser: Browser,
  address: string,
  work: (page: Page) => Promise<Result>,
  options: VisitOptions = {},
): Promise<Result> {
  const {
    language = "en-US",
    colorScheme = "light",
    viewport = { width: 1280, height: 800 },
  } = options;
  const context = await browser.newContext({
    locale: language,
    colorScheme,
    viewport: { ...viewport },
    reducedMotion: "reduce",
    timezoneId: "UTC",
  });
  context.setDefaultTimeout(waitTimeoutMs);
  const { problems, answered } = watch(context, new URL(address).origin, options);
  try {
    const page = await context.newPage();
    if (options.hasOwnClock === true) await page.clock.install();
    let result: Result;
    try {
      await page.goto(address);
      result = await work(page);
      await Promise.race([answered(), Bun.sleep(answerTimeoutMs)]);
      // What the page has done until now has been reported when the page answers.
      if (!page.isClosed()) await page.evaluate("0");
    } catch (cause) {
      await saveScreenshot(page, `failed-${Date.now()}`).catch(() => undefined);
      throw new Error(["the visit failed", String(cause), ...problems].join("\n"), { cause });
    }
    if (problems.length > 0) throw new Error(["the page has problems", ...problems].join("\n"));
    return result;
  } finally {
    await context.close();
  }
}

/** Collects, in words, all that no page of ours may do. */
function watch(
  context: BrowserContext,
  origin: string,
  { refusals = [], mayLoseConnection = false }: VisitOptions,
): { readonly problems: readonly string[]; readonly answered: () => Promise<unknown> } {
  const problems: string[] = [];
  const answers: Promise<void>[] = [];
  context.on("console", (message) => {
    const text = message.text();
    // It comes late, and is known from the answer itself.
    if (text.includes("the server responded with a status of")) return;
    if (mayLoseConnection && text.includes("net::ERR_CONNECTION_REFUSED")) return;
    if (["error", "warning", "assert"].includes(message.type()))
      problems.push(`${message.type()} on the console: ${text} (${message.location().url})`);
  });
  context.on("weberror", (error) => {
    problems.push(`an error that nothing caught: ${error.error().message}`);
  });
  context.on("dialog", (dialog) => {
    problems.push(`a dialog of the browser: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on("request", (request) => {
    const [url = ""] = request.url().split("#");
    if (new URL(url).origin !== origin) problems.push(`a request to another origin: ${url}`);
    const refused = (response: Response | null): void => {
      const status = response?.status() ?? 0;
      if (status >= 400 && !refusals.includes(status))
        problems.push(`an answer with a status of ${status}: ${url}`);
    };
    answers.push(request.response().then(refused, () => undefined));
    const referrer = request.headers()["referer"];
    for (const text of [url, referrer ?? ""])
      if (secret.test(text)) problems.push(`a secret in the address of a request: ${text}`);
  });
  return { problems, answered: () => Promise.all(answers) };
}

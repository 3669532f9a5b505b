import { ConnectionError } from "../http/connectionError.ts";
import { createPoster, type PosterOptions } from "../http/poster.ts";
import { KeyError, readIssuedKey, type IssuedKey } from "./issuedKey.ts";

const TIMEOUT_MS = 15_000;
/** How long a token is valid, if its answer does not say. */
export const GIGACHAT_LIFETIME_MS = 1_800_000;

/** What GigaChat takes for an access token. */
export interface GigachatLogin {
  /** The authorization key: the client's id and secret in base64. */
  readonly apiKey: string;
  readonly scope: string;
  readonly tokenUrl: string;
}

/**
 * Gets an access token of GigaChat, which is valid for 30 minutes:
 * https://developers.sber.ru/docs/ru/gigachat/api/reference/rest/post-token
 */
export async function gigachatToken(
  { apiKey, scope, tokenUrl }: GigachatLogin,
  connection: Pick<PosterOptions, "proxyUrl" | "ca" | "connectTimeoutMs">,
  epochMs: () => number,
  signal: AbortSignal,
): Promise<IssuedKey> {
  const { origin, pathname } = new URL(tokenUrl);
  const poster = createPoster({
    ...connection,
    baseUrl: origin,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    timeoutMs: TIMEOUT_MS,
  });
  const close = (): void => poster.close();
  signal.addEventListener("abort", close);
  try {
    const { status, body } = await poster.post(pathname, `scope=${encodeURIComponent(scope)}`, {
      authorization: `Basic ${apiKey}`,
      rquid: crypto.randomUUID(),
    });
    if (status !== 200) throw new KeyError(`the token server answers with the status ${status}`);
    return readIssuedKey(Buffer.from(body).toString(), epochMs());
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    throw new KeyError(`no answer of the token server: ${error.code}`);
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

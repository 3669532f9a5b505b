import type { Config } from "../../../src/config/schema.ts";
import { createConsoleServer } from "../../../src/http/console/server.ts";
import { ConsoleSession } from "../../../src/http/console/session.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import type { SqliteStore } from "../../../src/store/open.ts";
import { actor } from "../store/storeFolder.ts";

/** A signed-in console on a port of this machine. */
export interface ConsoleUnderTest {
  /** The answer of a GET. Throws for another status than 200. */
  read<Answer>(path: string): Promise<Answer>;
  /** Sends a request with the cookie, and with the headers of a write. */
  send(path: string, init?: RequestInit): Promise<Response>;
  /** The time that its reads take for the present, in milliseconds since 1970. */
  nowMs: number;
  stop(): Promise<void>;
}

/** Serves the console over this store. Its time stands still. */
export function openConsole(store: SqliteStore, config: Config, nowMs: number): ConsoleUnderTest {
  const session = new ConsoleSession(systemClock, systemRandom);
  const operator = () => ({ config, store, actor: { ...actor, at: served.nowMs } });
  const app = createConsoleServer(operator, session).listen({ hostname: "127.0.0.1", port: 0 });
  const origin = `http://127.0.0.1:${app.server?.port}`;
  const secrets = session.exchange(session.token);
  const headers = {
    origin,
    cookie: `${session.cookieName}=${secrets?.cookie}`,
    "x-tollgate-console": secrets?.pageSecret ?? "",
  };
  const served: ConsoleUnderTest = {
    nowMs,
    send: (path, init = {}) => fetch(origin + path, { ...init, headers }),
    async read<Answer>(path: string) {
      const response = await served.send(path);
      if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
      return (await response.json()) as Answer;
    },
    async stop() {
      session.end();
      await app.server?.stop(true);
    },
  };
  return served;
}

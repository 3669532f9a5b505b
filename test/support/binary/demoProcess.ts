import { until } from "../until.ts";
import { binaryPath } from "./binary.ts";

/** The output of `tollgate demo --json`. */
export interface Welcome {
  readonly base_url: string;
  readonly key: string;
  readonly config: string;
  readonly page: string;
  readonly balance_rub: string;
  readonly voucher: string;
  readonly commands: Readonly<
    Record<"chat" | "models" | "balance" | "history" | "usage" | "console" | "audit", string>
  >;
}

/** A running demo, with its output so far. */
export interface Demo {
  readonly text: string;
  end(signal: NodeJS.Signals): Promise<number>;
}

/** Starts the compiled `tollgate demo`. Resolves when it has printed its welcome. */
export async function startDemo(...flags: readonly string[]): Promise<Demo> {
  const child = Bun.spawn([await binaryPath(), "demo", ...flags], {
    // Any folder that is not the demo's own.
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stdout) text += decoder.decode(bytes, { stream: true });
  };
  void read();
  const demo = {
    get text() {
      return text;
    },
    async end(signal: NodeJS.Signals) {
      child.kill(signal);
      return child.exited;
    },
  };
  const last = flags.includes("--json") ? /^\}$/m : /The log follows\./;
  await until("the demo prints its welcome", () => last.test(text));
  return demo;
}

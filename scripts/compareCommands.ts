/**
 * Compares what two executables print: `bun scripts/compareCommands.ts BEFORE NOW`. Each is an executable, or the path of
 * `main.ts`. It compares every help, wrong command lines, a history of changes and reports in all forms, and the answers of
 * the console. Ids, secrets, times and durations are masked. It ends with status 1 if anything differs.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wrongLines } from "../test/commands/cli/wrongLines.ts";
import { openCliFolder, type CliFolder, type CommandRun } from "../test/support/binary/cli.ts";

/** What was printed or answered, by the command or the request. */
type Outputs = Map<string, string>;

const history = [
  "accounts list",
  "accounts create alice",
  "accounts create alice",
  "accounts create bob --overdraft 12.5 --json",
  "accounts create carol --json",
  "keys list",
  "keys list --account bob",
  "vouchers list",
  "vouchers list --search x",
  "requests",
  "requests --model x",
  "usage",
  "balance history alice",
  "accounts show alice",
  "accounts show alice --json",
  "accounts show nobody",
  "accounts set alice --overdraft 7 --low 3.5",
  "accounts set alice --low none --json",
  "accounts set alice --overdraft none --notify mailto:a@b.example",
  "accounts set alice --notify none",
  "accounts set nobody --low 5",
  "accounts disable bob",
  "accounts disable bob --json",
  "accounts enable bob",
  "accounts disable carol",
  "accounts list",
  "accounts list --json",
  "balance credit alice 100 --ref pay-1 --note first",
  "balance credit alice 100 --ref pay-1",
  "balance credit alice 101 --ref pay-1",
  "balance credit alice 1 --note gift --json",
  "balance debit alice 0.000000001",
  "balance debit alice 0.000000001 --json",
  "balance debit bob 99",
  "balance credit nobody 1",
  "balance show alice",
  "balance show alice --json",
  "balance show nobody",
  "keys create --account alice",
  "keys create --account dora --json",
  "keys create --account erin",
  "keys create --account alice --models small,gi* --budget 50 --expires 2090-01-01 --rpm 60 --tpm 0 --concurrent 2 --label laptop --json",
  "keys create --account alice --label none",
  "keys create --account alice --models big",
  "keys create --account carol",
  "keys list",
  "keys list --json",
  "keys list --account alice",
  "keys list --account nobody",
  "keys show KEY",
  "keys show KEY --json",
  "keys show key_x",
  "keys set KEY --models none --rpm none --expires none --label none",
  "keys set KEY --budget 12 --tpm 5 --json",
  "keys set KEY --models big",
  "keys set key_x --rpm 1",
  "vouchers create --amount 5",
  "vouchers create --amount 5 --count 2 --expires 2090-01-01 --note gift",
  "vouchers create --amount 5 --json",
  "vouchers list",
  "vouchers list --json",
  "vouchers list --csv",
  "vouchers list --search gift",
  "vouchers revoke VOUCHER",
  "vouchers revoke VOUCHER",
  "vouchers revoke VOUCHER --json",
  "vouchers revoke vch_x",
  "SERVE",
  "requests",
  "requests --json",
  "requests --csv",
  "requests --limit 1 --account alice --status done --key KEY --model small --since 1d --json",
  "requests --account nobody",
  "requests --key key_x",
  "requests --status failed",
  "requests show REQUEST",
  "requests show REQUEST --json",
  "requests show req_x",
  "balance refund REQUEST --amount 0.001 --ref sorry --note part",
  "balance refund REQUEST --amount 0.001 --ref sorry",
  "balance refund REQUEST --json",
  "balance refund REQUEST",
  "balance refund req_x",
  "balance history alice",
  "balance history alice --json",
  "balance history alice --csv --limit 3",
  "balance history nobody",
  "requests show REQUEST",
  ...["day", "model", "provider", "account", "key"].flatMap((by) =>
    ["", " --json", " --csv"].map((form) => `usage --by ${by} --account alice${form}`),
  ),
  "usage --since 2001-01-01 --until 2002-01-01",
  "usage --account nobody",
  "keys rotate KEY --grace 1h",
  "keys rotate KEY",
  "keys show KEY",
  "keys list --account alice",
  "keys revoke KEY",
  "keys revoke KEY",
  "keys revoke KEY --json",
  "keys revoke key_x",
  "keys set KEY --rpm 1",
  "CONSOLE",
  "audit",
];

const reads = [
  "overview",
  "overview?span=24h",
  "overview?span=1y",
  "accounts",
  "accounts?search=a&limit=1",
  "accounts?limit=0",
  "accounts/alice",
  "accounts/alice?span=30d",
  "accounts/nobody",
  "accounts/alice/ledger",
  "accounts/alice/ledger?limit=2",
  "accounts/alice/ledger?before=3&limit=1",
  "accounts/alice/ledger?before=x",
  "keys",
  "keys?account=alice&search=lap",
  "keys?account=nobody",
  "vouchers",
  "vouchers?search=gift",
  "requests",
  "requests?account=alice&status=done&since=1d&cost_min=0&only=estimated",
  "requests?cost_min=x",
  "requests?status=lost",
  "requests?since=1h&until=2h",
  "requests?key=sk-tg-secret",
  "requests?limit=1",
  "requests/REQUEST",
  "providers",
  "models",
  "check",
  "state",
];

async function outputsOf(program: string): Promise<Outputs> {
  const command = program.endsWith(".ts") ? [process.execPath, program] : [program];
  const outputs: Outputs = new Map();
  await Promise.all([
    addHelps(command, outputs),
    addWrongLines(command, outputs),
    addHistory(command, outputs),
  ]);
  return outputs;
}

function shown({ status, stdout, stderr }: CommandRun): string {
  return `status ${status}\n${stderr && `stderr: ${stderr}\n`}${stdout}`;
}

async function addHelps(command: readonly string[], outputs: Outputs): Promise<void> {
  const cli = await openCliFolder(null, command);
  const add = async (path: string): Promise<void> => {
    const words = path.split(" ").filter(Boolean);
    const run = await cli.run(...words, "--help");
    outputs.set(`${path} --help`.trim(), shown(run));
    outputs.set(`help ${path}`.trim(), shown(await cli.run("help", ...words)));
    const [, list = ""] = run.stdout.split("\nCommands:\n");
    const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name);
    const below = names.filter((name) => name !== "help");
    await Promise.all(below.map((name) => add(`${path} ${name}`.trim())));
  };
  await add("");
  await cli.remove();
}

async function addWrongLines(command: readonly string[], outputs: Outputs): Promise<void> {
  const cli = await openCliFolder(undefined, command);
  const lanes = [0, 1, 2, 3].map(async (lane) => {
    for (const [args] of wrongLines.filter((_, at) => at % 4 === lane))
      outputs.set(args.join(" "), shown(await cli.run(...args)));
  });
  await Promise.all(lanes);
  await cli.remove();
}

async function addHistory(command: readonly string[], outputs: Outputs): Promise<void> {
  using provider = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: providerAnswer });
  const cli = await openCliFolder(undefined, command);
  const config = await Bun.file(cli.config).text();
  const addressed = config.replace("127.0.0.1:9", `127.0.0.1:${provider.port}`);
  await Bun.write(cli.config, `[server]\nlisten = "127.0.0.1:0"\n${addressed}`);
  const ids = { KEY: "", VOUCHER: "", REQUEST: "" };
  let secret = "";
  for (const [at, line] of history.entries()) {
    const name = `${at} ${line}`;
    if (line === "SERVE") ids.REQUEST = await serveOne(command, cli, secret);
    else if (line === "CONSOLE") await addConsole(command, cli, ids, outputs);
    else {
      const words = line.replaceAll(/KEY|VOUCHER|REQUEST/g, (id) => ids[id as keyof typeof ids]);
      const run = await cli.run(...words.split(" "));
      outputs.set(name, masked(shown(run), cli.folder, provider.port));
      if (line.startsWith("keys create --account alice --models small"))
        secret = /"key": "(sk-tg-\w+)"/.exec(run.stdout)?.[1] ?? "";
      if (/^keys (create|rotate)/.test(line))
        ids.KEY = /key_\w+/.exec(run.stdout.replace(/^key_\w+ works.*\n/, ""))?.[0] ?? ids.KEY;
      if (line.startsWith("vouchers create"))
        ids.VOUCHER = /vch_\w+/.exec(run.stdout)?.[0] ?? ids.VOUCHER;
    }
  }
  await cli.remove();
}

function providerAnswer(): Response {
  return Response.json({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "small-2",
    choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 },
  });
}

/** Starts a gateway, sends one chat, and returns its id. */
async function serveOne(command: readonly string[], cli: CliFolder, key: string): Promise<string> {
  const child = Bun.spawn([...command, "serve", "--config", cli.config], {
    cwd: cli.folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const address = await untilPrinted(child.stdout, /"address":"(http:\/\/[^"]+|[\d.:]+)"/);
  const url = address.startsWith("http") ? address : `http://${address}`;
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "small", messages: [{ role: "user", content: "hi" }] }),
  });
  if (!answer.ok) throw new Error(`the chat failed: ${await answer.text()}`);
  child.kill("SIGTERM");
  await child.exited;
  return answer.headers.get("x-request-id") ?? "";
}

/** Reads all of the output, because a program may wait for a reader. */
function untilPrinted(output: ReadableStream<Uint8Array>, form: RegExp): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const read = async (): Promise<void> => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of output) {
      text += decoder.decode(bytes, { stream: true });
      const found = form.exec(text)?.[1];
      if (found !== undefined) resolve(found);
    }
    reject(new Error(`${form} was not printed: ${text}`));
  };
  read().catch(reject);
  return promise;
}

async function addConsole(
  command: readonly string[],
  cli: CliFolder,
  ids: { readonly KEY: string; readonly REQUEST: string },
  outputs: Outputs,
): Promise<void> {
  const child = Bun.spawn(
    [...command, "console", "--json", "--config", cli.config, "--listen", "127.0.0.1:0"],
    { cwd: cli.folder, stdio: ["ignore", "pipe", "inherit"] },
  );
  const address = await untilPrinted(child.stdout, /"address": "([^"]+)"/);
  const [url = "", token = ""] = address.split("/#token=");
  const own = { origin: url, "x-tollgate-console": "any", "content-type": "application/json" };
  const session = await fetch(`${url}/api/session`, {
    method: "POST",
    headers: own,
    body: JSON.stringify({ token }),
  });
  const cookie = session.headers.get("set-cookie")?.split(";")[0] ?? "";
  const { page_secret: secret } = (await session.json()) as { readonly page_secret: string };
  for (const path of reads) {
    const answer = await fetch(`${url}/api/${path.replace("REQUEST", ids.REQUEST)}`, {
      headers: { cookie, "x-tollgate-console": secret },
    });
    const body = JSON.stringify(await answer.json(), null, 1);
    outputs.set(`GET /api/${path}`, masked(`status ${answer.status}\n${body}`, cli.folder, 0));
  }
  child.kill("SIGINT");
  await child.exited;
}

/** The text with stand-ins for what differs between two equal runs. */
function masked(text: string, folder: string, port: number | undefined): string {
  return text
    .replaceAll(folder, "FOLDER")
    .replaceAll(`:${port}/`, ":PORT/")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replaceAll(/\b(key|vch|req)_[0-9a-z]{20,}/g, "$1_ID")
    .replaceAll(/sk-tg-[0-9A-Za-z]+/g, "sk-tg-SECRET")
    .replaceAll(/\b[0-9A-Z]{5}(-[0-9A-Z]{5}){5}\b/g, "CODE")
    .replaceAll(/(?<="prefix": "|vch_ID +|vch_ID,)[0-9A-Z]{5}\b/g, "CODE")
    .replaceAll(/"version": "[^"]+"/g, '"version": "VERSION"')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:]+(\.\d+)?Z/g, "TIME")
    .replaceAll(/\d{4}-\d\d-\d\d/g, "DATE")
    .replaceAll(/((?:duration|first_byte|from|p50|p95)(?:_ms)?": )\d+/g, "$1MS")
    .replaceAll(/((?:first byte|duration), ms +)\d+/g, "$1MS")
    .replaceAll(/(?<!^status) +(?:ms|\d+)$/gm, " MS")
    .replaceAll(/(done,.*?),\d+,\d*,0,0$/gm, "$1,MS,MS,0,0")
    .replaceAll(/^ +\d+,?$/gm, "N");
}

async function differs(name: string, before: string, now: string): Promise<void> {
  const files = [join(tmpdir(), "before.txt"), join(tmpdir(), "now.txt")] as const;
  await Bun.write(files[0], `${before}\n`);
  await Bun.write(files[1], `${now}\n`);
  const diff = Bun.spawnSync(["diff", "-u", "--label", "before", "--label", "now", ...files]);
  console.log(`\n=== ${name}\n${diff.stdout.toString()}`);
}

const [beforeProgram, nowProgram] = process.argv.slice(2);
if (beforeProgram === undefined || nowProgram === undefined)
  throw new Error("usage: bun scripts/compareCommands.ts BEFORE NOW");
const [before, now] = await Promise.all([outputsOf(beforeProgram), outputsOf(nowProgram)]);
let different = 0;
for (const name of new Set([...before.keys(), ...now.keys()])) {
  const [was = "(nothing)", is = "(nothing)"] = [before.get(name), now.get(name)];
  if (was === is) continue;
  different += 1;
  await differs(name, was, is);
}
console.log(`${before.size} outputs, ${different} differ`);
process.exit(different === 0 ? 0 : 1);

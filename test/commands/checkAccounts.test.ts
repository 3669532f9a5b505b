import { afterAll, beforeAll, expect, test } from "bun:test";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { examine } from "../support/binary/doctor.ts";
import { configText } from "../support/gateway/gatewayConfig.ts";
import { usual } from "../support/provider/chatAnswers.ts";
import { refusal, startProvider } from "../support/provider/scriptedProvider.ts";

const provider = startProvider((peer, request) =>
  (request.text.includes("Bearer canary-good") ? usual : refusal(401, "no"))(peer, request),
);
let cli: CliFolder;

beforeAll(async () => {
  const accounts = [
    { id: "good", api_key_command: ["printf", "canary-good"] },
    { id: "bad", api_key_command: ["printf", "canary-bad"] },
    { id: "failing", api_key_command: ["sh", "-c", "echo canary; echo canary >&2; exit 7"] },
  ];
  const base_url = `http://127.0.0.1:${provider.port}/v1`;
  cli = await openCliFolder(
    configText({
      providers: { many: { base_url, accounts } },
      models: [{ id: "small", routes: [{ provider: "many", responses: false }] }],
    }),
  );
});
afterAll(async () => {
  await cli.remove();
  provider.stop();
});

test("check counts a provider once, and its accounts", async () => {
  const { stdout } = await cli.run("check");
  expect(stdout).toContain("is valid (providers: 1 with 3 accounts, models: 1)");
});

test("check --live asks a route by each account, and says why one has no key", async () => {
  const { status, stdout, stderr } = await cli.run("check", "--live", "--json");
  const { live } = JSON.parse(stdout) as { live: Record<string, unknown>[] };
  expect(live.map(({ provider: id, message }) => [id, message])).toEqual([
    ["many/good", "ok"],
    ["many/bad", "the provider refuses the key (401): check what api_key_command writes"],
    ["many/failing", "no key: the command ended with the exit status 7; check api_key_command"],
  ]);
  expect(status).toBe(1);
  expect(stdout + stderr).not.toContain("canary");
});

test("doctor connects to a server once, and gets the key of each account", async () => {
  const { messages, output } = await examine(cli);
  expect(messages["providers"]).toStartWith("1 of 1 accept connections");
  expect(messages["providers"]).toEndWith(
    "many/failing: no key: the command ended with the exit status 7",
  );
  expect(output).not.toContain("canary");
});

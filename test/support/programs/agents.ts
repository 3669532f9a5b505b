import { claudeCode, codex, opencode, type Program } from "./programs.ts";
import type { SdkClient, SdkResult } from "../sdk/client.ts";
import type { ProgramStart } from "./programRun.ts";

/** Where and what a program is to ask. */
export interface Task {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly key: string;
  readonly model: string;
  readonly prompt: string;
  /** The program's home. */
  readonly home: string;
}

/** What a program tells at its end: the last text, and the usage of all its requests. */
export type AgentResult = Pick<SdkResult, "text" | "usage">;

/** A program that works for its user with a model and tools, over one interface of the gateway. */
export interface Agent {
  readonly program: Program;
  readonly endpoint: SdkClient["endpoint"];
  /** Its tool that runs a command in a shell, and what a model writes to call it. */
  readonly tool: { readonly name: string; readonly input: (command: string) => object };
  /** Its tool that shows the model a picture, and what a model writes to call it with a path. */
  readonly picture: { readonly name: string; readonly input: (path: string) => object };
  start(task: Task): ProgramStart;
  /** Goes on in the same home after it ended because the context overflowed. Undefined if it goes on by itself. */
  goOn?(task: Task): ProgramStart;
  /** Reads what the program printed. */
  result(stdout: string): AgentResult;
}

const bashInput = (command: string) => ({ command, description: "Runs a command" });

export const claudeCodeAgent: Agent = {
  program: claudeCode,
  endpoint: "messages",
  tool: { name: "Bash", input: bashInput },
  picture: { name: "Read", input: (path) => ({ file_path: path }) },
  start: ({ url, key, model, prompt, home }) => ({
    command: [
      claudeCode.path,
      ..."--allowedTools=Bash,Read --output-format=json".split(" "),
      `--model=${model}`,
      "--print",
      prompt,
    ],
    environment: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: key,
      CLAUDE_CONFIG_DIR: `${home}/.claude`,
      CLAUDE_CODE_TMPDIR: `${home}/tmp`,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      // It tries ten times otherwise, with growing pauses. A failure must end the test.
      CLAUDE_CODE_MAX_RETRIES: "0",
    },
  }),
  result(stdout) {
    const told = JSON.parse(stdout) as { result: string; usage: Record<string, number> };
    const count = (name: string) => told.usage[name] ?? 0;
    const cached = count("cache_read_input_tokens");
    return {
      text: told.result,
      usage: {
        prompt: count("input_tokens") + cached + count("cache_creation_input_tokens"),
        cached,
        completion: count("output_tokens"),
      },
    };
  },
};

export const codexAgent: Agent = {
  program: codex,
  endpoint: "responses",
  tool: { name: "exec_command", input: (command) => ({ cmd: command }) },
  picture: { name: "view_image", input: (path) => ({ path }) },
  start: (task) => codexRun("exec", task),
  goOn: (task) => codexRun("exec resume --last", task),
  result(stdout) {
    const events = linesOf(stdout) as CodexEvent[];
    const usage = events.find(({ type }) => type === "turn.completed")?.usage;
    const items = events.filter(({ type }) => type === "item.completed").map(({ item }) => item);
    const count = (name: string) => usage?.[name] ?? 0;
    return {
      text: items.findLast((item) => item?.type === "agent_message")?.text ?? "",
      usage: {
        prompt: count("input_tokens"),
        cached: count("cached_input_tokens"),
        completion: count("output_tokens"),
      },
    };
  },
};

function codexRun(command: string, { url, key, model, prompt }: Task): ProgramStart {
  return {
    command: [
      codex.path,
      ...command.split(" "),
      // Its own sandbox needs rights that a container may not have.
      ..."--json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox".split(" "),
      `--model=${model}`,
      prompt,
    ],
    environment: { GATEWAY_KEY: key },
    files: {
      ".codex/config.toml": `
model_provider = "gateway"

[model_providers.gateway]
name = "gateway"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
request_max_retries = 0
stream_max_retries = 0
`,
    },
  };
}

interface CodexEvent {
  readonly type: string;
  readonly item?: { readonly type: string; readonly text?: string };
  readonly usage?: Readonly<Record<string, number>>;
}

export const opencodeOverChat = opencodeOver("chat", "@ai-sdk/openai-compatible");
export const opencodeOverMessages = opencodeOver("messages", "@ai-sdk/anthropic");

/** The packages are parts of its executable. */
function opencodeOver(endpoint: Agent["endpoint"], npm: string): Agent {
  return {
    program: opencode,
    endpoint,
    tool: { name: "bash", input: bashInput },
    picture: { name: "read", input: (path) => ({ filePath: path }) },
    start: ({ url, key, model, prompt }) => ({
      command: [
        opencode.path,
        // It asks the model for a title unless it is given one.
        ..."run --format=json --title=task".split(" "),
        `--model=gateway/${model}`,
        prompt,
      ],
      environment: {
        OPENCODE_DISABLE_AUTOUPDATE: "1",
        OPENCODE_DISABLE_MODELS_FETCH: "1",
        OPENCODE_DISABLE_PROJECT_CONFIG: "1",
        OPENCODE_CONFIG_CONTENT: JSON.stringify({
          share: "disabled",
          provider: {
            gateway: {
              npm,
              name: "gateway",
              options: { baseURL: `${url}/v1`, apiKey: key },
              models: { [model]: { name: model, ...sees } },
            },
          },
        }),
      },
    }),
    result(stdout) {
      // An error has no part.
      const events = linesOf(stdout) as { part?: OpencodePart }[];
      const parts = events.flatMap(({ part }) => part ?? []);
      const steps = parts.flatMap(({ tokens }) => (tokens === undefined ? [] : [tokens]));
      const sum = (count: (step: OpencodeTokens) => number) =>
        steps.reduce((total, step) => total + count(step), 0);
      return {
        text: parts.findLast(({ type }) => type === "text")?.text ?? "",
        usage: {
          prompt: sum(({ input, cache }) => input + cache.read + cache.write),
          cached: sum(({ cache }) => cache.read),
          completion: sum(({ output }) => output),
        },
      };
    },
  };
}

/** It sends pictures only to a model that is said to see them. */
const sees = { attachment: true, modalities: { input: ["text", "image"], output: ["text"] } };

interface OpencodeTokens {
  readonly input: number;
  readonly output: number;
  readonly cache: { readonly read: number; readonly write: number };
}

interface OpencodePart {
  readonly type: string;
  readonly text?: string;
  readonly tokens?: OpencodeTokens;
}

function linesOf(stdout: string): unknown[] {
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line): unknown => JSON.parse(line));
}

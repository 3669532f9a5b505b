import { join } from "node:path";
import type { ExpectedAnswer } from "../../providers/conformance/dialect.ts";
import {
  offeredTools,
  type Refused,
  saysCalls,
  saysText,
  type StrictRequest,
  type StrictServer,
} from "../../conformance/strict/strictServer.ts";
import type { Agent } from "./agents.ts";
import { lastWords } from "./provider.ts";

const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const pictureName = "dot.png";
/** The turn after which the conversation is longer than the context of the model, as the server says. */
const OVERFLOW_TURN = 5;
const TURNS = 10;

/** A task of ten turns, as the model of a server works on it: parallel calls, a picture, and a context that overflows. */
export interface TenTurns {
  /** The turns that the model has had. */
  readonly turns: number;
  readonly overflows: number;
  /** The summaries of the conversation that it was asked for. */
  readonly summaries: number;
  /** Whether the model got the picture. */
  readonly hasSeenPicture: boolean;
  says(this: void, request: StrictRequest): ExpectedAnswer | Refused;
}

export async function preparePicture(folder: string): Promise<void> {
  await Bun.write(join(folder, pictureName), Buffer.from(pixel, "base64"));
}

export function tenTurns(agent: Agent, server: StrictServer, folder: string): TenTurns {
  let turns = 0;
  let overflows = 0;
  let summaries = 0;
  let hasSeenPicture = false;
  let call = 1;
  const calls = (...asked: readonly { name: string; input: object }[]) => {
    const said = saysCalls(server, asked, call);
    call += asked.length;
    return said;
  };
  const { tool, picture } = agent;
  const command = (text: string) => ({ name: tool.name, input: tool.input(text) });
  return {
    get turns() {
      return turns;
    },
    get overflows() {
      return overflows;
    },
    get summaries() {
      return summaries;
    },
    get hasSeenPicture() {
      return hasSeenPicture;
    },
    says(request) {
      hasSeenPicture ||= JSON.stringify(request.body).includes(pixel);
      if (turns === OVERFLOW_TURN && overflows === 0) {
        overflows += 1;
        return server.overflow;
      }
      if (asksForSummary(agent, request)) {
        summaries += 1;
        return saysText("Five turns are done.");
      }
      turns += 1;
      if (turns === 3) {
        return calls({ name: picture.name, input: picture.input(join(folder, pictureName)) });
      }
      if (turns === TURNS) return saysText(lastWords);
      return calls(command(`echo ${turns}a >> done.txt`), command(`echo ${turns}b`));
    },
  };
}

/** A program that shortens its conversation asks the model for a summary first, mostly without its tools. */
function asksForSummary({ tool }: Agent, request: StrictRequest): boolean {
  const { body } = request;
  const items = (body["messages"] ?? body["input"] ?? body["contents"]) as readonly unknown[];
  return (
    !offeredTools(request).includes(tool.name) ||
    JSON.stringify(items.slice(-3)).includes("create a detailed summary")
  );
}

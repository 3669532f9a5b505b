import { startProvider, stream, type ScriptedProvider } from "../provider/scriptedProvider.ts";
import { scriptOf } from "../sdk/provider.ts";
import type { Agent } from "./agents.ts";

/** What the model says at last. */
export const lastWords = "It is done";

/**
 * A provider on all wires whose model first calls a tool of the agent with a command, and says its last words
 * when it gets the result. The requests that it got show what the agent brought.
 */
export function startAgentProvider(): ScriptedProvider & {
  serve(agent: Agent, command: string): void;
} {
  const provider = startProvider();
  return Object.assign(provider, {
    serve({ tool }: Agent, command: string) {
      provider.forget();
      provider.answer = (peer, request) => {
        const script = scriptOf(request);
        const said = script.bringsResult(request)
          ? { text: lastWords }
          : { tool: tool.name, input: JSON.stringify(tool.input(command)) };
        return stream(...script.events(said))(peer, request);
      };
    },
  });
}

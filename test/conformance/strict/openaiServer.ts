import { openaiDialect } from "../../providers/conformance/openaiDialect.ts";
import { openaiResponsesDialect } from "../../providers/conformance/openaiResponsesDialect.ts";
import { checkOpenaiChat } from "./openaiChatRules.ts";
import { openaiFault, OUTPUT_TOKENS_MAX } from "./openaiFaults.ts";
import { checkOpenaiResponses } from "./openaiResponsesRules.ts";
import type { StrictServer } from "./strictServer.ts";

const openai: Omit<StrictServer, "name" | "route" | "check"> = {
  provider: { max_tokens_field: "max_completion_tokens" },
  settings: { max_output_tokens: OUTPUT_TOKENS_MAX },
  dialect: (path) => (path === "/responses" ? openaiResponsesDialect : openaiDialect),
  overflow: openaiFault(
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "input",
    "context_length_exceeded",
  ),
  callId: (number) => `call_${String(number).padStart(24, "0")}`,
};

function server(name: string, route: StrictServer["route"]): StrictServer {
  const takesEffortWithTools = route.model === "o4-mini";
  return {
    ...openai,
    name,
    route,
    check({ path, body }) {
      if (path === "/responses") checkOpenaiResponses(body);
      else checkOpenaiChat(body, takesEffortWithTools);
    },
  };
}

/** A reasoning model of OpenAI in each of the ways that a route can have. */
export const openaiServers: readonly StrictServer[] = [
  server("OpenAI, responses = true", { model: "gpt-5.6-terra", responses: true }),
  server('OpenAI, api = "responses"', {
    model: "gpt-5.6-terra",
    responses: true,
    api: "responses",
  }),
  server("OpenAI, chat alone", { model: "o4-mini", responses: false }),
];

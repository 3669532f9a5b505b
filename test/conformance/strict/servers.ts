import { anthropicServers } from "./anthropicServer.ts";
import { geminiServers } from "./geminiServer.ts";
import { groqServer } from "./groqServer.ts";
import { mistralServer } from "./mistralServer.ts";
import { openaiServers } from "./openaiServer.ts";
import type { StrictServer } from "./strictServer.ts";
import { templateServers } from "./templateServers.ts";

export const strictServers: readonly StrictServer[] = [
  ...openaiServers,
  ...anthropicServers,
  ...geminiServers,
  mistralServer,
  groqServer,
  ...templateServers,
];

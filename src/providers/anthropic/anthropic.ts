import { readMessagesUsage } from "../../contract/usage.ts";
import { readMessage } from "./anthropicAnswer.ts";
import { encodeMessages } from "./anthropicRequest.ts";
import { readMessageEvents } from "./anthropicStream.ts";
import type { ProviderAdapter } from "../provider.ts";

/** https://platform.claude.com/docs/en/api/versioning: what a request without this header means is not promised. */
const VERSION = "2023-06-01";

/** The Messages API of Anthropic, and of all that speak it: https://platform.claude.com/docs/en/api/messages */
export const anthropic: ProviderAdapter = {
  headers: (apiKey) => ({
    "anthropic-version": VERSION,
    ...(apiKey === undefined ? {} : { "x-api-key": apiKey }),
  }),
  chat: {
    encode: encodeMessages,
    read: readMessage,
    usage: { name: "usage", read: readMessagesUsage },
    events: readMessageEvents,
    eventsStandAlone: false,
    takesAll: false,
    takesStop: true,
  },
  responses: undefined,
};

// The store and its Workers read these lists, so this file does not load TypeBox.

/** By which of the API's endpoints a request came. */
export const endpoints = ["chat", "responses"] as const;
export type Endpoint = (typeof endpoints)[number];

/** `cancelled`: the client went away; `interrupted`: the gateway crashed. */
export const requestStatuses = ["running", "done", "failed", "cancelled", "interrupted"] as const;
export type RequestStatus = (typeof requestStatuses)[number];

/** The statuses with which a request ends while the gateway runs. */
export type FinalStatus = Exclude<RequestStatus, "running" | "interrupted">;

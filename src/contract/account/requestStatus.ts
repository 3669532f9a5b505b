// The store's Worker imports this file, so it must not import TypeBox.

/** The endpoints that providers answer. */
export const endpoints = ["chat", "responses", "messages", "embeddings"] as const;
export type Endpoint = (typeof endpoints)[number];

/** `cancelled`: the client disconnected. `interrupted`: the gateway crashed. */
export const requestStatuses = ["running", "done", "failed", "cancelled", "interrupted"] as const;
export type RequestStatus = (typeof requestStatuses)[number];

/** The statuses that a settled request can have. */
export type FinalStatus = Exclude<RequestStatus, "running" | "interrupted">;

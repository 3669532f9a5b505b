/** What went over the wire for an SDK. */
export interface Wire {
  /** To be given to the SDK: reaches this machine only, and throws for any other. */
  readonly fetch: typeof fetch;
  /** Every request that the SDK made, tried again or not, with the id that the gateway gave it. */
  readonly requests: readonly { readonly status: number; readonly id: string }[];
}

// While an SDK is proven, the global one is watched, and must never be called.
const reach = globalThis.fetch;

export function openWire(): Wire {
  const requests: { status: number; id: string }[] = [];
  const send = async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
    const { href, hostname } = new URL(input instanceof Request ? input.url : input);
    if (hostname !== "127.0.0.1") throw new Error(`an SDK wants to reach ${href}`);
    const response = await reach(input, init);
    const { status, headers } = response;
    requests.push({ status, id: headers.get("x-request-id") ?? "" });
    return response;
  };
  return { fetch: Object.assign(send, { preconnect: reach.preconnect }), requests };
}

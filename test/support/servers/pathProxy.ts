/** A reverse proxy on 127.0.0.1 that serves a gateway below a path and nothing else, as an operator's may do. */
export interface PathProxy {
  /** With the path, and a slash at its end. */
  readonly url: string;
  stop(): void;
}

/** `path` begins and ends with a slash. */
export function startPathProxy(gateway: string, path: string): PathProxy {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      if (!pathname.startsWith(path)) return new Response("another site", { status: 404 });
      const { method, headers, body } = request;
      const target = `${gateway}/${pathname.slice(path.length)}${search}`;
      const answer = await fetch(target, { method, headers, body, decompress: false });
      return new Response(answer.body, { status: answer.status, headers: answer.headers });
    },
  });
  return { url: `http://127.0.0.1:${server.port}${path}`, stop: () => void server.stop(true) };
}

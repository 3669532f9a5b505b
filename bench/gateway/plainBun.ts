// The least that a gateway on Bun's own server and client can cost: it forwards everything and checks nothing.
// bench/gateway.ts starts it with the port to listen on and the port of the provider; and, for the least that one
// can cost that keeps a record of a JSON answer, with a file in which a row for each is committed before it is sent.
const [port, providerPort, path] = process.argv.slice(2);
const committed = path === undefined ? undefined : rowsOf(path);

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const body = await request.text();
    const answer = await fetch(`http://127.0.0.1:${providerPort}${pathname}`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
      signal: request.signal,
    });
    const type = answer.headers.get("content-type") ?? "";
    const headers = { "content-type": type };
    if (!committed || !type.startsWith("application/json"))
      return new Response(answer.body, { status: answer.status, headers });
    const text = await answer.text();
    await committed();
    return new Response(text, { status: answer.status, headers });
  },
});

/** Rows that arrive during a commit are in the next one, as in Tollgate. */
function rowsOf(path: string): () => Promise<void> {
  const worker = new Worker(new URL("./rowWriter.ts", import.meta.url).href);
  worker.postMessage(path);
  let waiting: (() => void)[] = [];
  let underWay: (() => void)[] = [];
  const commit = (): void => {
    if (underWay.length > 0 || waiting.length === 0) return;
    underWay = waiting;
    waiting = [];
    worker.postMessage(underWay.length);
  };
  worker.onmessage = () => {
    const done = underWay;
    underWay = [];
    commit();
    for (const resolve of done) resolve();
  };
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      commit();
    });
}

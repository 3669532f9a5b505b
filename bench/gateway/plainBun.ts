// The least that a gateway on Bun's own server and client can cost: it passes everything on and looks at nothing.
// bench/gateway.ts starts it with the port to listen on and the port of the provider.
const [port, providerPort] = process.argv.slice(2);

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
    const headers = { "content-type": answer.headers.get("content-type") ?? "" };
    return new Response(answer.body, { status: answer.status, headers });
  },
});

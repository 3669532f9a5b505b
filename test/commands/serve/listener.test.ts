import { expect, test } from "bun:test";
import type { Server } from "bun";
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect } from "node:tls";
import { openListener, type HttpSurface } from "../../../src/commands/serve/listener.ts";
import { makeCertificate } from "../../config/makeCertificate.ts";
import { inScratchFolder } from "../../config/loadText.ts";

function surface(): HttpSurface {
  let server: Server<unknown> | null = null;
  return {
    listen(options: object) {
      server = Bun.serve({ ...options, fetch: () => new Response("well") });
    },
    get server() {
      return server;
    },
  };
}

function shownAt(address: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const port = Number(new URL(address).port);
  const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
    resolve(socket.getPeerCertificate().fingerprint256);
    socket.destroy();
  });
  socket.on("error", reject);
  return promise;
}

test("a listener keeps its certificate when the next one is unusable, and takes a later one", async () => {
  const tlsOf = inScratchFolder((folder) => {
    const made = (name: string) => ({
      certFile: "",
      keyFile: "",
      cert: makeCertificate(folder, `${name}.pem`, `${name}-key.pem`),
      key: readFileSync(`${folder}/${name}-key.pem`, "utf8"),
      expiresAt: 0,
    });
    return { first: made("first"), second: made("second") };
  });
  const listen = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const listener = await openListener(surface, { listen, tls: tlsOf.first, socketMode: 0o600 });
  try {
    const { second } = tlsOf;
    const damaged = { ...second, cert: second.cert + second.cert.slice(0, 300) };
    expect(await listener.renewCertificate(damaged)).toContain("cannot listen on 127.0.0.1:");
    expect(await shownAt(listener.address)).toBe(
      new X509Certificate(tlsOf.first.cert).fingerprint256,
    );
    expect(await listener.renewCertificate(second)).toBeUndefined();
    expect(await shownAt(listener.address)).toBe(new X509Certificate(second.cert).fingerprint256);
  } finally {
    await listener.close(Promise.resolve());
  }
});

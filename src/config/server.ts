import { fitsSocketPath, parseListen, type Listen } from "./address.ts";
import type { Inspection } from "./inspection.ts";
import { duration, entry, file, flag, names, readTable, size, text, type Table } from "./option.ts";
import { parseUrl } from "./serverUrl.ts";
import { readTls, type TlsConfig } from "./tls.ts";

const PROCESSES_MAX = 64;

export const serverOptions = {
  listen: text("listen", {
    default: "127.0.0.1:8080",
    form: 'an address in quotes, such as "127.0.0.1:8080"',
    restart: true,
    inUnit: true,
    doc: '"ADDRESS:PORT" or "unix:/run/tollgate/tollgate.sock". "0.0.0.0:8080" listens on all addresses of this machine. If a systemd service is installed and the port falls below 1024, or the socket moves, write its unit again: remove it, then run `tollgate service install` and `systemctl daemon-reload`.',
  }),
  processes: entry<number | "auto">(
    "processes",
    {
      restart: true,
      doc: 'How many processes serve requests, on Linux and a TCP address. "auto" is the number of cores less one, 1 to 8, with a SQLite file, and 1 with PostgreSQL. One process is enough for some thousand requests a second. Each further process takes about 50 MB at rest.',
    },
    {
      form: `"auto" or a whole number from 1 to ${PROCESSES_MAX}`,
      accept(value) {
        if (value === "auto") return value;
        const isCount = typeof value === "bigint" && value >= 1n && value <= PROCESSES_MAX;
        return isCount ? Number(value) : undefined;
      },
      absent: "auto",
      default: '"auto"',
      range: `1 to ${PROCESSES_MAX}`,
    },
  ),
  maxBodyBytes: size("max_body", {
    default: "20MB",
    min: "1KB",
    max: "1GB",
    doc: "The maximum size of a request body.",
  }),
  tlsCert: file("tls_cert", {
    serveOnly: true,
    restart: ({ tls }: { tls: TlsConfig | undefined }) => tls === undefined,
    doc: "The PEM file of a certificate, for HTTPS without a proxy in front. To turn TLS on or off needs a restart.",
  }),
  tlsKey: file("tls_key", {
    serveOnly: true,
    doc: "The PEM file of its key. Set both or neither.",
  }),
  drainDelayMs: duration("drain_delay", {
    default: "3s",
    max: "5m",
    restart: true,
    inUnit: true,
    doc: 'After SIGTERM the gateway serves for this long, while /healthz answers 503 and each answer ends its connection: so a load balancer turns to another gateway and loses nothing. Then it takes no new requests. "0s" without a balancer. If you raise it, write the unit of the service again as above.',
  }),
  shutdownGraceMs: duration("shutdown_grace", {
    default: "30s",
    max: "1h",
    restart: true,
    inUnit: true,
    doc: "Then open requests have this long to finish. If you raise it, write the unit of the service again as above, or systemd kills the gateway after the old time.",
  }),
  sseKeepaliveMs: duration("sse_keepalive", {
    default: "15s",
    max: "1h",
    doc: 'A quiet stream gets a comment line this often, so that no proxy closes it. "0s" turns it off.',
  }),
  jsonKeepalive: flag("json_keepalive", {
    default: true,
    doc: "A JSON answer that takes longer than sse_keepalive gets white space before it, as often. Its status is 200 from then on: if it fails later, the connection is closed without an answer. false: nothing is sent before the answer, and no proxy may have a shorter idle limit than the slowest answer takes.",
  }),
  corsOrigins: names("cors_origins", {
    check: originProblem,
    doc: 'Web pages of these origins may call the API directly, for example ["https://chat.example.com", "http://localhost:3000"]. An origin is exact: scheme, name and port, no "*". Everyone who can open such a page can read a key that is in it.',
  }),
  page: flag("page", {
    default: true,
    doc: "GET / answers with a page for key holders: balance, spending, requests, prices. false: 404.",
  }),
} as const;

export const pageOptions = {
  contact: text("contact", {
    default: "",
    form: 'an address in quotes, such as "https://example.com/buy"',
    doc: 'Where key holders ask for more money: a link that begins with https://, http:// or mailto:, for example "https://example.com/buy". The page shows it beside the balance, and GET /v1/account names it. "": no link.',
  }),
} as const;

/** Reads [server]. Problems go to the inspection. */
export function readServer(table: Table, inspection: Inspection) {
  const { listen, tlsCert, tlsKey, ...values } = readTable(
    serverOptions,
    table,
    "server",
    inspection,
  );
  const address = readListen(inspection, "server.listen", listen);
  if (address.kind === "unix" && values.processes !== "auto" && values.processes > 1)
    inspection.problem(
      "server.processes",
      'must be 1 or "auto" with a Unix socket, which belongs to one process: set it so, or listen on an address and a port',
    );
  return {
    ...values,
    listen: address,
    tls: readTls(tlsCert, tlsKey, inspection),
  } as const;
}

/** The address of a listener. Problems go to the inspection. */
export function readListen(inspection: Inspection, key: string, text: string): Listen {
  const listen = parseListen(text);
  if (listen === undefined) {
    inspection.problem(
      key,
      'must be "ADDRESS:PORT" ("0.0.0.0:8080" is every address of this machine) or "unix:/path"',
    );
    return { kind: "tcp", host: "127.0.0.1", port: 0 };
  }
  if (listen.kind === "tcp") return listen;
  const path = inspection.absolutePath(listen.path);
  if (!fitsSocketPath(path)) {
    inspection.problem(key, "is too long for a Unix socket: use a path of at most 103 bytes");
  }
  return { kind: "unix", path };
}

/** Scheme, host and port, as browsers write them. Apps in a web view have schemes of their own. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;

/** Browsers send an origin in one form only, and it is compared as text. */
function originProblem(origin: string): string | undefined {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  const isExact = url !== undefined && ORIGIN.test(origin) && (!isWeb || url.origin === origin);
  return isExact
    ? undefined
    : 'must be one exact origin as browsers send it, such as "https://chat.example.com" or "http://localhost:3000": no *, no path, no slash at the end, lower case, and no usual port';
}

/** Reads [page]. Problems go to the inspection. */
export function readPage(table: Table, inspection: Inspection) {
  const { contact } = readTable(pageOptions, table, "page", inspection);
  return { contact: readContact(contact, inspection) } as const;
}

/** The name before the @ of a mailto URL, then a host: one address, as browsers open it. */
const MAILTO = /^mailto:[^\s\\\p{Cc}@?]+@[^\s\\\p{Cc}@?]+(?:\?[^\s\\\p{Cc}]*)?$/iu;

/** The URL in ASCII; undefined if the text is empty. Key holders see it, so it must not contain a password. */
function readContact(text: string, inspection: Inspection): string | undefined {
  if (text === "") return undefined;
  const url = MAILTO.test(text) && URL.canParse(text) ? new URL(text) : parseUrl(text);
  if (url === undefined) {
    inspection.problem(
      "page.contact",
      'must be a link for key holders that begins with https:// or http://, or "mailto:" and an address, such as "https://example.com/buy" or "mailto:sales@example.com"',
    );
    return undefined;
  }
  if (url.username !== "" || url.password !== "") {
    inspection.problem("page.contact", "must not contain a user or password: key holders see it");
  }
  return url.href;
}

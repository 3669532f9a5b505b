import MimeNode from "nodemailer/lib/mime-node";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import type { Socket } from "node:net";
import { errorCode } from "../lib/systemError.ts";
import { ConnectionError, tunnelTo } from "../providers/upstream.ts";
import {
  type AttemptFailure,
  type AttemptOptions,
  type FailureReason,
  type NoticeMessage,
  noticeTitle,
} from "./notice.ts";
import type { MailRecipient } from "./recipients.ts";

// This module is loaded only if a mail is sent, to keep the start fast. Only two parts of the library are used. The others
// know services of mail, run programs, and read files and addresses that a message names.

/** Sends a notice as a mail of plain text. TLS, where the server is asked for it, is always verified. */
export async function sendMail(
  message: NoticeMessage,
  recipient: MailRecipient,
  { timeoutMs, signal }: AttemptOptions,
): Promise<AttemptFailure | undefined> {
  const mail = await mailOf(message, recipient);
  if (signal.aborted) return failureOf(new MailAborted("closed"));
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);
  const ending = new AbortController();
  const abort = (): void => failed.reject(new MailAborted("timeout"));
  const timer = setTimeout(abort, timeoutMs).unref();
  signal.addEventListener("abort", abort);
  let connection: SMTPConnection | undefined;
  try {
    const tunnel = tunnelOf(recipient, timeoutMs, ending.signal);
    connection = connectionTo(recipient, await Promise.race([tunnel, failed.promise]), timeoutMs);
    // Errors after the end of an attempt come here too.
    connection.on("error", failed.reject);
    connection.on("end", () => failed.reject(new MailAborted("closed")));
    await Promise.race([handOver(connection, mail, recipient), failed.promise]);
    connection.quit();
    return undefined;
  } catch (error) {
    connection?.close();
    ending.abort();
    return failureOf(error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Opens a tunnel to the mail server through a proxy; undefined without a proxy. */
async function tunnelOf(
  { server, proxyUrl, ca }: MailRecipient,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Socket | undefined> {
  if (proxyUrl === undefined) return undefined;
  return tunnelTo(server, { proxyUrl, ca }, timeoutMs, signal);
}

/** An attempt that ended without an answer of the server. */
class MailAborted extends Error {
  override readonly name = "MailAborted";
  readonly reason: FailureReason;

  constructor(reason: FailureReason) {
    super(`the attempt ended: ${reason}`);
    this.reason = reason;
  }
}

function connectionTo(
  { server, ca }: MailRecipient,
  tunnel: Socket | undefined,
  timeoutMs: number,
): SMTPConnection {
  return new SMTPConnection({
    ...(tunnel && { connection: tunnel }),
    host: server.host,
    port: server.port,
    secure: server.tls === "implicit",
    requireTLS: server.tls === "starttls",
    ignoreTLS: server.tls === "none",
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise turn off the verification.
    tls: { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) },
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
  });
}

async function handOver(
  connection: SMTPConnection,
  mail: Buffer,
  { server, from, to }: MailRecipient,
): Promise<void> {
  await called((done) => connection.connect(done));
  const { login } = server;
  if (login !== undefined)
    await called((done) => connection.login({ user: login.user, pass: login.password }, done));
  await called((done) => connection.send({ from, to: [to] }, mail, done));
}

/** Calls a function that reports its end to a callback. */
function called(run: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    run((error) => (error ? reject(error) : resolve()));
  });
}

async function mailOf({ id, notice }: NoticeMessage, { from, to }: MailRecipient): Promise<Buffer> {
  const node = new MimeNode("text/plain; charset=utf-8", {
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  node.setHeader({
    From: { name: "Tollgate", address: from },
    To: to,
    Subject: `Tollgate: ${noticeTitle(notice)}`,
    Date: new Date(notice.atMs),
    // The id stays for each attempt, so that a mailbox can drop repeats.
    "Message-ID": `<${id}@${from.slice(from.indexOf("@") + 1)}>`,
    // No answers of absent people: https://www.rfc-editor.org/rfc/rfc3834
    "Auto-Submitted": "auto-generated",
  });
  const facts = Object.entries(notice.data).map(([name, value]) => `${name}: ${value ?? "none"}`);
  node.setContent([notice.text, "", ...facts, ""].join("\r\n"));
  return node.build();
}

/** Codes of the library: https://nodemailer.com/errors */
const REASONS: Readonly<Record<string, FailureReason>> = {
  EAUTH: "login",
  ENOAUTH: "login",
  EDNS: "dns",
  ETIMEDOUT: "timeout",
  ETLS: "starttls",
  ECONNECTION: "closed",
  EENVELOPE: "status",
  EMESSAGE: "status",
  EPROTOCOL: "protocol",
};

function failureOf(error: unknown): AttemptFailure {
  if (error instanceof MailAborted)
    return { reason: error.reason, status: undefined, isFinal: false };
  if (error instanceof ConnectionError)
    return { reason: error.code, status: undefined, cause: error.cause, isFinal: false };
  const status = replyCodeOf(error);
  const known = REASONS[errorCode(error) ?? ""] ?? socketReason(error);
  const reason = known === "protocol" && status !== undefined ? "status" : known;
  // A 5xx reply to login or mail stays: https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1
  const isRefusal = reason === "login" || reason === "status";
  return { reason, status, isFinal: isRefusal && (status ?? 0) >= 500 };
}

function replyCodeOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("responseCode" in error)) return undefined;
  return typeof error.responseCode === "number" ? error.responseCode : undefined;
}

/** The library gives all errors of a socket one code. Their messages begin with the system's call, or are of TLS. */
function socketReason(error: unknown): FailureReason {
  const message = error instanceof Error ? error.message : "";
  if (message.includes("ECONNREFUSED")) return "refused";
  if (/certificate|altname|\bSSL\b|\bTLS\b/i.test(message)) return "tls";
  return /ECONNRESET|EPIPE|closed/i.test(message) ? "closed" : "unreachable";
}

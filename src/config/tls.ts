import type { X509Certificate } from "node:crypto";
import { DAY_MS, isoTime } from "../lib/time.ts";
import { errorCode } from "../lib/systemError.ts";
import { readNamedFile } from "./values.ts";
import type { Inspection } from "./inspection.ts";
import type { Config } from "./schema.ts";

/** Long enough before its end for somebody to see the warning and to renew it. */
const CERTIFICATE_ENDS_SOON_MS = 14 * DAY_MS;

/**
 * The certificate and key files of the public listener, proven to be readable, to belong together and to be servable;
 * undefined when neither is set. A certificate that by the inspection's clock has ended, soon will, or has yet to begin
 * is warned of.
 * The server gets the texts that were checked: a file may be written anew at any moment.
 */
export function readTls(
  certPath: string,
  keyPath: string,
  inspection: Inspection,
): Config["server"]["tls"] {
  if (certPath === "" && keyPath === "") return undefined;
  if (certPath === "" || keyPath === "") {
    const [missing, given] = certPath === "" ? ["cert", "key"] : ["key", "cert"];
    inspection.problem(
      `server.tls_${missing}`,
      `is required with tls_${given}: set both or neither`,
    );
    return undefined;
  }
  const cert = readNamedFile(inspection, "server.tls_cert", certPath);
  const key = readNamedFile(inspection, "server.tls_key", keyPath);
  if (cert !== undefined && key !== undefined) checkPair(cert, key, inspection);
  return {
    certFile: inspection.absolutePath(certPath),
    keyFile: inspection.absolutePath(keyPath),
    // What could not be read is a problem, so that nobody uses it.
    cert: cert ?? "",
    key: key ?? "",
  };
}

/** Loaded only where a certificate is configured: it takes 10 ms, a sixth of the time to the first answer. */
function nodeCrypto() {
  return process.getBuiltinModule("node:crypto");
}

/** Whether the text holds a certificate in PEM form. */
export function isCertificate(pem: string): boolean {
  return certificateIn(pem) !== undefined;
}

/** The first one, which is the server's own where others follow it. */
function certificateIn(pem: string): X509Certificate | undefined {
  return parsed(() => new (nodeCrypto().X509Certificate)(pem));
}

function checkPair(cert: string, key: string, inspection: Inspection): void {
  const certificate = certificateIn(cert);
  const privateKey = parsed(() => nodeCrypto().createPrivateKey(key));
  if (certificate === undefined) {
    inspection.problem("server.tls_cert", "the file is not a PEM certificate");
  }
  if (privateKey === undefined) {
    inspection.problem("server.tls_key", "the file is not an unencrypted PEM private key");
  }
  if (certificate === undefined || privateKey === undefined) return;
  if (!certificate.checkPrivateKey(privateKey)) {
    inspection.problem("server.tls_key", "is not the key of the certificate in tls_cert");
  } else checkServable(cert, key, inspection);
  warnAboutDates(certificate, inspection);
}

/** The listener refuses whatever this does, and by then the old one is closed. */
function checkServable(cert: string, key: string, inspection: Inspection): void {
  try {
    process.getBuiltinModule("node:tls").createSecureContext({ cert, key });
  } catch (error) {
    inspection.problem(
      "server.tls_cert",
      `cannot be served (${errorCode(error) ?? "unknown"}): the first certificate is valid, check the certificates after it`,
    );
  }
}

function warnAboutDates({ validFrom, validTo }: X509Certificate, inspection: Inspection): void {
  const beginMs = Date.parse(validFrom);
  const endMs = Date.parse(validTo);
  const { nowMs } = inspection;
  if (nowMs < beginMs) {
    inspection.warning(
      "server.tls_cert",
      `the certificate is not valid before ${isoTime(beginMs)}, and clients reject it: check the clock of this machine and the file`,
    );
  }
  // One that is made for days is renewed in its last third.
  const soonMs = Math.min(CERTIFICATE_ENDS_SOON_MS, (endMs - beginMs) / 3);
  // A date that cannot be read is NaN, and tells nothing.
  if (!(endMs < nowMs + soonMs)) return;
  const state = endMs < nowMs ? "has expired, and clients reject it" : "expires soon";
  inspection.warning(
    "server.tls_cert",
    `the certificate ${state} (${isoTime(endMs)}): renew it, then reload the gateway (SIGHUP)`,
  );
}

/** The outcome, or undefined if it throws: here "does it parse" is a question, not an error. */
function parsed<Value>(parse: () => Value): Value | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}

import type { X509Certificate } from "node:crypto";
import { DAY_MS, isoTime } from "../lib/clock.ts";
import { errorCode } from "../lib/systemError.ts";
import { readNamedFile } from "./values.ts";
import type { Inspection } from "./inspection.ts";

/** The files of a certificate and its key, and their checked contents. */
export interface TlsConfig {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
  /** The end of the certificate in Unix milliseconds. */
  readonly expiresAt: number;
}

/** A warning begins this long before the end of a certificate. */
const CERTIFICATE_ENDS_SOON_MS = 14 * DAY_MS;

/**
 * Reads and checks the certificate and key of the public listener: readable, a pair and accepted by TLS. Undefined if
 * neither is set. Warns about a certificate that is expired, expires soon or is not valid yet. The server gets the
 * checked contents, because the files can change at any moment.
 */
export function readTls(
  certPath: string,
  keyPath: string,
  inspection: Inspection,
): TlsConfig | undefined {
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
  const certificate =
    cert !== undefined && key !== undefined ? checkPair(cert, key, inspection) : undefined;
  return {
    certFile: inspection.absolutePath(certPath),
    keyFile: inspection.absolutePath(keyPath),
    // A file that cannot be read is a problem already, so these empty values are never used.
    cert: cert ?? "",
    key: key ?? "",
    expiresAt: certificate ? Date.parse(certificate.validTo) : 0,
  };
}

/** Loaded only if a certificate is configured: it takes 10 ms. */
function nodeCrypto() {
  return process.getBuiltinModule("node:crypto");
}

/** The PEM text of a private certificate authority. Undefined if no file is named, or with a problem. */
export function readAuthority(
  path: string,
  key: string,
  inspection: Inspection,
): string | undefined {
  if (path === "") return undefined;
  const pem = readNamedFile(inspection, key, path);
  if (pem !== undefined && certificateIn(pem) === undefined)
    inspection.problem(key, "the file is not a PEM certificate");
  return pem;
}

/** The first certificate, which is the server's own. */
function certificateIn(pem: string): X509Certificate | undefined {
  return parsed(() => new (nodeCrypto().X509Certificate)(pem));
}

/** Returns the server's own certificate; undefined if one of the files cannot be used at all. */
function checkPair(cert: string, key: string, inspection: Inspection): X509Certificate | undefined {
  const certificate = certificateIn(cert);
  const privateKey = parsed(() => nodeCrypto().createPrivateKey(key));
  if (certificate === undefined) {
    inspection.problem("server.tls_cert", "the file is not a PEM certificate");
  }
  if (privateKey === undefined) {
    inspection.problem("server.tls_key", "the file is not an unencrypted PEM private key");
  }
  if (certificate === undefined || privateKey === undefined) return undefined;
  if (!certificate.checkPrivateKey(privateKey)) {
    inspection.problem("server.tls_key", "is not the key of the certificate in tls_cert");
  } else checkServable(cert, key, inspection);
  warnAboutDates(certificate, inspection);
  return certificate;
}

/** A listener would fail in the same way, but only after a reload has closed the old listener. */
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
  // A certificate with a short life is renewed in its last third.
  const soonMs = Math.min(CERTIFICATE_ENDS_SOON_MS, (endMs - beginMs) / 3);
  // An unreadable date is NaN: no warning.
  if (!(endMs < nowMs + soonMs)) return;
  const state = endMs < nowMs ? "has expired, and clients reject it" : "expires soon";
  inspection.warning(
    "server.tls_cert",
    `the certificate ${state} (${isoTime(endMs)}): renew it, then reload the gateway (SIGHUP)`,
  );
}

/** The result of `parse`; undefined if it throws. */
function parsed<Value>(parse: () => Value): Value | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}

import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Makes a self-signed certificate for so many days and its key in the folder, and returns the certificate's text. */
export function makeCertificate(
  folder: string,
  certificate: string,
  key: string,
  days = 30,
): string {
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const files = ["-keyout", key, "-out", certificate];
  const made = Bun.spawnSync({
    cmd: [
      "openssl",
      "req",
      "-x509",
      ...curve,
      "-days",
      `${days}`,
      "-subj",
      "/CN=localhost",
      ...files,
    ],
    cwd: folder,
  });
  if (!made.success) throw new Error(`openssl failed: ${made.stderr.toString()}`);
  return readFileSync(join(folder, certificate), "utf8");
}

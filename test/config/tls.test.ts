import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inScratchFolder, loadText, minimal, outcomeOf, withEnvironment } from "./loadText.ts";
import { loadConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { makeCertificate } from "./makeCertificate.ts";

describe("TLS", () => {
  const both = 'server.tls_cert = "cert.pem"\nserver.tls_key = "key.pem"\n';

  test("takes a certificate and its key, from the config's folder, and silences the warning", () => {
    inScratchFolder((folder) => {
      const cert = makeCertificate(folder, "cert.pem", "key.pem");
      const file = join(folder, "config.toml");
      const text = `server.listen = "0.0.0.0:443"\n${both}${minimal}`;
      const { config, warnings } = loadFile(file, text);
      expect(warnings).toEqual([]);
      expect(config?.server.tls).toEqual({
        certFile: join(folder, "cert.pem"),
        keyFile: join(folder, "key.pem"),
        cert,
        key: readFileSync(join(folder, "key.pem"), "utf8"),
        expiresAt: Date.parse(new X509Certificate(cert).validTo),
      });
    });
  });

  test("refuses the key of another certificate", () => {
    inScratchFolder((folder) => {
      makeCertificate(folder, "cert.pem", "other.pem");
      makeCertificate(folder, "another.pem", "key.pem");
      expect(loadFile(join(folder, "config.toml"), both + minimal).problems).toEqual([
        "server.tls_key: is not the key of the certificate in tls_cert",
      ]);
    });
  });

  test.each([
    ["cut off", (pem: string) => pem.slice(0, 300)],
    ["none", (pem: string) => pem.replace(/\n[^-]{20}/, `\n${"A".repeat(20)}`)],
  ])("refuses a chain whose second certificate is %s, and takes the whole one", (_, spoil) => {
    inScratchFolder((folder) => {
      const authority = makeCertificate(folder, "authority.pem", "authority-key.pem");
      const cert = makeCertificate(folder, "cert.pem", "key.pem");
      const problemsOf = (chain: string): readonly string[] => {
        writeFileSync(join(folder, "cert.pem"), chain);
        return loadFile(join(folder, "config.toml"), both + minimal).problems;
      };
      expect(problemsOf(cert + authority)).toEqual([]);
      expect(problemsOf(cert + spoil(authority))).toEqual([
        expect.stringMatching(
          /^server\.tls_cert: cannot be served \(ERR_OSSL_[A-Z0-9_]+\): the first certificate is valid, check the certificates after it$/,
        ),
      ]);
    });
  });

  test.each([
    { lifeDays: 90, well: [0, 75], soon: 77, over: 91 },
    { lifeDays: 6, well: [0, 3.5], soon: 4.5, over: 7 },
  ])(
    "warns of a certificate of $lifeDays days in its last 14 days or third, and behind its end",
    ({ lifeDays, well, soon, over }) => {
      inScratchFolder((folder) => {
        makeCertificate(folder, "cert.pem", "key.pem", lifeDays);
        const file = join(folder, "config.toml");
        writeFileSync(file, both + minimal, { mode: 0o600 });
        const warningsAfter = (days: number) => {
          const nowMs = Date.now() + days * 24 * 60 * 60 * 1000;
          const clock = { ...systemClock, epochMs: () => nowMs };
          return withEnvironment({ ONE_KEY: "sk-one" }, () => loadConfig({ path: file, clock }))
            .warnings;
        };
        const expected = (state: string) => [
          expect.stringMatching(
            new RegExp(
              `^server.tls_cert: the certificate ${state} \\(2[^)]+Z\\): renew it, then reload`,
            ),
          ),
        ];
        for (const days of well) expect(warningsAfter(days)).toEqual([]);
        expect(warningsAfter(soon)).toEqual(expected("expires soon"));
        expect(warningsAfter(over)).toEqual(expected("has expired, and clients reject it"));
      });
    },
  );

  test("warns of a certificate whose time has not come", () => {
    inScratchFolder((folder) => {
      makeCertificate(folder, "cert.pem", "key.pem");
      const file = join(folder, "config.toml");
      writeFileSync(file, both + minimal, { mode: 0o600 });
      const clock = { ...systemClock, epochMs: () => Date.now() - 24 * 60 * 60 * 1000 };
      const load = () => loadConfig({ path: file, clock }).warnings;
      expect(withEnvironment({ ONE_KEY: "sk-one" }, load)).toEqual([
        expect.stringMatching(
          /^server\.tls_cert: the certificate is not valid before 2[^ ]+Z, and clients reject it: check the clock of this machine and the file$/,
        ),
      ]);
    });
  });

  test.each([
    [
      'server.tls_cert = "cert.pem"\n',
      ["server.tls_key: is required with tls_cert: set both or neither"],
    ],
    [
      'server.tls_key = "key.pem"\n',
      ["server.tls_cert: is required with tls_key: set both or neither"],
    ],
    [
      both,
      [
        "server.tls_cert: the file is not a PEM certificate",
        "server.tls_key: the file is not an unencrypted PEM private key",
      ],
    ],
    [
      both.replaceAll(".pem", ".lost"),
      [
        "server.tls_cert: the file cannot be read: no such file (a relative path starts at the folder of the config)",
        "server.tls_key: the file cannot be read: no such file (a relative path starts at the folder of the config)",
      ],
    ],
  ])("%j", (text, problems) => {
    const files = { "cert.pem": "no certificate", "key.pem": "no key" };
    expect(loadText(text + minimal, { files }).problems).toEqual(problems);
  });
});

function loadFile(file: string, text: string): ReturnType<typeof outcomeOf> {
  return withEnvironment({ ONE_KEY: "sk-one" }, () => {
    writeFileSync(file, text, { mode: 0o600 });
    return outcomeOf(file);
  });
}

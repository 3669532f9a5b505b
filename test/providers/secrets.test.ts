import { describe, expect, test } from "bun:test";
import type { ProviderConfig } from "../../src/config/schema.ts";
import { redactSecrets, secretsOf } from "../../src/providers/secrets.ts";

const noSecrets = { values: [], hosts: [] };

describe("text without secrets is unchanged", () => {
  test.each([
    "Invalid type for 'tools[0].user_location': expected an object",
    "tools[0].user_location",
    "Unknown parameter: 'user_message'",
    "Invalid schema for response_format 'project_summary': key_findings is required",
    "Function name team_members-lookup invalid; see key-value_store",
    "'org-structure.Leader' and 'proj_members' and 'key_constraint...' are unknown",
    "a ratio of 16:9:1:1 at 12:30:45:10",
    "state:1:2:3 of std::vector, ::: and a::b",
  ])("%s", (text) => expect(redactSecrets(text, noSecrets)).toBe(text));
});

describe("the operator's secrets are masked", () => {
  test.each([
    "sk-proj-AbCdEfGh",
    "sk-proj-abc*****wxyz",
    "sk-abcd...wxyz",
    "key-0a1b2c3d4e5f",
    "gsk_abcdefgh1",
    "org-AbCdEfGh",
    "org_0123456789",
    "user-abcdef0123",
    "proj_AbCdEf123456",
    "team-0b7c9d1e-1234",
    "10.20.30.40",
    "203.0.113.77:8443",
    "2001:db8::1",
    "[2001:db8::1]:8443",
    "fd00::5",
    "::1",
    "fe80:0:0:0:204:61ff:fe9d:f156",
    "2001:0:0:0:0:0:0:1",
    "2001:470:1f0b:10",
  ])("%s", (secret) => {
    expect(redactSecrets(`before ${secret} behind`, noSecrets)).toBe("before *** behind");
    expect(redactSecrets(`'${secret}'`, noSecrets)).toBe("'***'");
    expect(redactSecrets(`it:${secret}`, noSecrets)).toBe("it:***");
  });
});

test("a secret at the cut of a long text is masked", () => {
  const key = "a-key-of-the-operator";
  const address = `https://${"a".repeat(480)} `;
  for (let length = 2000; length <= 2060; length += 1) {
    const text = `${address.repeat(4)}${"b".repeat(length - 4 * address.length)}${key}`;
    expect(redactSecrets(text, { values: [key], hosts: [] })).not.toContain("a-key");
  }
});

test("a key at the end of the shown text shows no beginning", () => {
  for (let length = 490; length <= 512; length += 1) {
    const shown = redactSecrets(`${"b".repeat(length - 1)} sk-proj-AbCdEfGh0123456789`, noSecrets);
    expect(shown).not.toContain("sk");
  }
});

test("the hosts of a provider's URL and of its proxy are masked", () => {
  const secrets = secretsOf({
    baseUrl: "https://llm.inside.example:8443/v1",
    proxyUrl: "http://proxy.inside.example:3128",
    headers: {},
  } as ProviderConfig);
  const text = "proxy.inside.example has no way to llm.inside.example:8443";
  expect(redactSecrets(text, secrets)).toBe("*** has no way to ***");
});

import { describe, expect, test } from "bun:test";
import { databaseName } from "../../src/config/database.ts";
import { byProblem, loadText, minimal } from "./loadText.ts";

const postgres = 'database.url = "postgres://gate@db.internal/tollgate"\n';

function load(lines: string, files: Readonly<Record<string, string>> = {}) {
  return loadText(`${lines}\n${minimal}`, { files, environment: { SECRET: "canary" } });
}

describe("a PostgreSQL database", () => {
  const year = 365 * 86_400_000;
  test.each([
    ["postgres://gate:canary@db:5433/toll", "postgres://gate@db:5433/toll"],
    ["postgresql://gate:${SECRET}@10.0.0.7/toll", "postgresql://gate@10.0.0.7/toll"],
    ["postgres://gate@[fd00::1]/toll?sslmode=require", "postgres://gate@[fd00::1]/toll"],
    [
      "postgres://gate:c%40nary@db.example.com/toll?sslmode=verify-full",
      "postgres://gate@db.example.com/toll",
    ],
  ])("%s is shown as %s", (text, shownUrl) => {
    const { config, problems, warnings } = load(`database.url = "${text}"`);
    expect(problems).toEqual([]);
    expect(warnings).toEqual([]);
    const url = text.replace("${SECRET}", "canary");
    expect(config?.database).toEqual({
      engine: "postgres",
      url,
      shownUrl,
      urlFile: undefined,
      reports: undefined,
      keepRequestsMs: year,
    });
    expect(config && databaseName(config.database)).toBe(shownUrl);
  });

  test("may be the content of a file", () => {
    const { config } = load('database.url_file = "url"', {
      url: "postgres://gate:canary@db/toll\n",
    });
    expect(config?.database).toMatchObject({
      url: "postgres://gate:canary@db/toll",
      shownUrl: "postgres://gate@db/toll",
      urlFile: expect.stringMatching(/^\/.*\/url$/),
    });
  });

  test("may have a standby for reports, whose URL has the same form", () => {
    const own = (key: string, text: string) => `${postgres}database.${key} = "${text}"`;
    const url = "postgres://reader:canary@replica/tollgate";
    const shownUrl = "postgres://reader@replica/tollgate";
    const reports = (outcome: ReturnType<typeof load>) =>
      outcome.config?.database.engine === "postgres" && outcome.config.database.reports;
    expect(reports(load(own("reports_url", url)))).toEqual({ url, shownUrl, urlFile: undefined });
    expect(reports(load(own("reports_url_file", "reader"), { reader: `${url}\n` }))).toEqual({
      url,
      shownUrl,
      urlFile: expect.stringMatching(/\/reader$/),
    });
    expect(load(own("reports_url", "canary")).problems).toEqual([`database.reports_url: ${form}`]);
    expect(load(own("reports_url_file", "lost")).problems).toEqual([
      "database.reports_url_file: the file cannot be read: no such file (a relative path starts at the folder of the config)",
    ]);
    expect(load(`database.reports_url = "${url}"`).problems).toEqual([
      "database.reports_url: needs url or url_file, the PostgreSQL database whose standby it is: set that too, or remove it",
    ]);
  });

  const form =
    "must be a URL such as postgres://user:password@host:5432/name; write @ : / ? # % in a password as %40 %3A %2F %3F %23 %25";
  test.each(
    byProblem({
      "must begin with postgres:// or postgresql://: other servers are not supported; a SQLite file is set with path":
        "mysql://gate:canary@db/toll",
      [form]: [
        "canary.db",
        "postgres:///toll",
        "postgres://gate:canary#1@db/toll",
        "postgres://gate:canary/1@db/toll",
        "postgres://gate:canary@db/toll#canary",
        "postgres://gate:canary@db1,db2/toll",
      ],
      "has a % in its user or password: write it as %25": "postgres://gate:canary%@db/toll",
      "must name a user: postgres://USER@host/name": "postgres://db/toll",
      "must name a database: postgres://user@host/NAME": [
        "postgres://gate:canary@db",
        "postgres://gate:canary@db/toll/two",
      ],
      "must not have other parameters after the ? than sslmode, sslrootcert, channel_binding":
        "postgres://gate@db/toll?password=canary",
      "has a wrong sslmode: use one of disable, allow, prefer, require, verify-ca, verify-full":
        "postgres://gate@db/toll?sslmode=canary",
      "must name an absolute path in sslrootcert": "postgres://gate@db/toll?sslrootcert=canary.pem",
    }),
  )("%s is refused", (text, problem) => {
    expect(load(`database.url = "${text}"`).problems).toEqual([`database.url: ${problem}`]);
    const fromFile = load('database.url_file = "url"', { url: text });
    expect(fromFile.problems).toEqual([`database.url_file: ${problem}`]);
  });

  test.each(
    byProblem({
      "path: must not be set together with url: keep url for PostgreSQL, or path for a SQLite file":
        'path = "a.db"',
      "durability: must not be set together with url: remove it; with PostgreSQL a charge always survives a power cut of the server":
        'durability = "power"',
      "url_file: must not be set together with url: keep one of them": 'url_file = "url"',
    }),
  )("%s beside url is refused", (line, problem) => {
    expect(load(`${postgres}database.${line}`).problems).toEqual([`database.${problem}`]);
  });

  test.each([
    [
      "missing",
      "the file cannot be read: no such file (a relative path starts at the folder of the config)",
    ],
    ["empty", "the file is empty: write the URL into it"],
  ])("a file that is %s is refused", (name, problem) => {
    const { problems } = load(`database.url_file = "${name}"`, { empty: " \n" });
    expect(problems).toEqual([`database.url_file: ${problem}`]);
  });

  test("on a public address without a checked certificate gets a warning", () => {
    expect(load('database.url = "postgres://gate@db.example.com/toll"').warnings).toEqual([
      "database.url: goes to a public address without a check of its certificate: add ?sslmode=verify-full",
    ]);
  });

  test.each([
    [
      "postgres://gate@ep-cool-1-pooler.eu-central-1.aws.neon.tech/toll?sslmode=verify-full",
      "at Neon the host without -pooler, ep-cool-1.eu-central-1.aws.neon.tech",
    ],
    [
      "postgres://gate.abc@aws-0-eu.pooler.supabase.com:6543/toll?sslmode=verify-full",
      "at Supabase the port 5432 in place of 6543",
    ],
    ["postgres://gate@ep-cool-1.eu-central-1.aws.neon.tech/toll?sslmode=verify-full", undefined],
    ["postgres://gate.abc@aws-0-eu.pooler.supabase.com:5432/toll?sslmode=verify-full", undefined],
  ])("%s gets a warning if it is that of a pooler in transaction mode", (url, instead) => {
    const problem = `database.url: is that of a pooler in transaction mode, which tollgate cannot work through: use the URL of the server itself, or of a pooler in session mode: ${instead}`;
    expect(load(`database.url = "${url}"`).warnings).toEqual(
      instead === undefined ? [] : [problem],
    );
  });

  test("with a password makes the config a secret", () => {
    const text = `database.url = "postgres://gate:canary@db/toll"\n${minimal}`;
    expect(loadText(text, { mode: 0o644 }).warnings).toEqual([
      "FOLDER/config.toml: is readable by other users and contains database.url: chmod 600 it, or use ${NAME} or a file (api_key_file or another key that ends with _file)",
    ]);
  });
});

describe("limits.redis", () => {
  test.each([
    ["redis://cache.internal:6379", "redis://cache.internal:6379"],
    ["rediss://gate:${SECRET}@cache.example.com/2", "rediss://cache.example.com/2"],
    ["valkey://:canary@[::1]:7000/0", "valkey://[::1]:7000/0"],
    ["valkeys://canary@cache", "valkeys://cache"],
  ])("%s is shown as %s", (text, shownUrl) => {
    const { config, problems, warnings } = load(`${postgres}limits.redis = "${text}"`);
    expect(problems).toEqual([]);
    expect(warnings).toEqual([]);
    expect(config?.limits.redis).toEqual({ url: text.replace("${SECRET}", "canary"), shownUrl });
  });

  test("may be the content of a file", () => {
    const { config } = load(`${postgres}limits.redis_file = "url"`, { url: "redis://:canary@a\n" });
    expect(config?.limits.redis).toEqual({ url: "redis://:canary@a", shownUrl: "redis://a" });
  });

  test.each(
    byProblem({
      "must begin with redis://, rediss://, valkey:// or valkeys://": "http://canary",
      "must be a URL such as redis://user:password@host:6379; write @ : / ? # % in a password as %40 %3A %2F %3F %23 %25":
        "canary:6379",
      "must end after the port, or after the number of a database (/0)": [
        "redis://cache/canary",
        "redis://cache/0?canary=1",
      ],
    }),
  )("%s is refused", (text, problem) => {
    const { problems } = load(`${postgres}limits.redis = "${text}"`);
    expect(problems).toEqual([`limits.redis: ${problem}`]);
  });

  test("is refused with a SQLite file", () => {
    expect(load('limits.redis = "redis://cache"').problems).toEqual([
      "limits.redis: needs [database] url: one gateway with a SQLite file counts its limits in memory; remove it",
    ]);
  });

  test("gets a warning where its password can be read on its way", () => {
    const { warnings } = load(`${postgres}limits.redis = "redis://cache.example.com"`);
    expect(warnings).toEqual([
      "limits.redis: is not encrypted to a public address: the password can be read on its way; use rediss://",
    ]);
  });
});

import { call } from "../gateway/chatCalls.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { nanoOf } from "../faults/faultSetup.ts";
import type { RequestRecord } from "../binary/gatewayProcess.ts";
import { creditRoubles, type IsolationSetup, type Tenant } from "./setup.ts";
import { promptEstimates, tokensOf } from "./tag.ts";

const listedMax = 100_000;
const nanoPerRouble = 1_000_000_000n;

/** What the database contains for all tenants. */
export interface AccountsSeen {
  readonly records: number;
  /** Charged by the provider's own figures. */
  readonly exact: number;
  /** Charges of clients that disconnected. */
  readonly estimated: number;
  readonly problems: readonly string[];
}

/** Checks that each tenant is charged exactly for its own requests. No request may be running. */
export async function readAccounts(setup: IsolationSetup): Promise<AccountsSeen> {
  const seen = await Promise.all(setup.tenants.map((tenant) => readAccount(setup, tenant)));
  return {
    records: seen.reduce((sum, { records }) => sum + records, 0),
    exact: seen.reduce((sum, { exact }) => sum + exact, 0),
    estimated: seen.reduce((sum, { estimated }) => sum + estimated, 0),
    problems: seen.flatMap(({ problems }) => problems),
  };
}

async function readAccount({ gateway }: IsolationSetup, tenant: Tenant): Promise<AccountsSeen> {
  const { account, asked, key, answers } = tenant;
  const listed = await gateway.cli.json(
    "requests",
    "--account",
    account,
    "--limit",
    String(listedMax),
  );
  const records = listed as RequestRecord[];
  const exact = records.filter(({ cost_rub: cost, estimated }) => cost !== "0" && !estimated);
  const estimated = records.filter((record) => record.estimated);
  const paid = records.reduce((sum, record) => sum + nanoOf(record.cost_rub), 0n);
  const usage = await call(gateway, { key }, { path: "/v1/usage" });
  const [day, ...otherDays] = (usage.body as { data: DayUsage[] }).data;
  const { body } = await call(gateway, { key }, { path: "/v1/account" });
  const { account: name, balance_rub: balance } = body as { account: string; balance_rub: string };
  const wrong: readonly (readonly [boolean, string])[] = [
    [records.length > asked, `${records.length} requests of ${asked} are recorded`],
    [otherDays.length > 0, "it has more than one day; run it again after midnight"],
    [day?.requests !== records.length, `its usage tells of ${day?.requests} requests`],
    [nanoOf(day?.cost_rub ?? "0") !== paid, `its usage costs ${day?.cost_rub}`],
    [name !== account, `its key is ${name}'s`],
    [
      nanoOf(balance) !== BigInt(creditRoubles) * nanoPerRouble - paid,
      `${balance} roubles are left, and ${paid} nano-roubles were paid`,
    ],
  ];
  return {
    records: records.length,
    exact: exact.length,
    estimated: estimated.length,
    problems: [
      ...wrong.flatMap(([is, what]) => (is ? [what] : [])),
      ...foreignCharges(tenant, exact),
      ...foreignEstimates(tenant, estimated),
      ...lostAnswers(answers, records),
    ].map((problem) => `${account}: ${problem}`),
  };
}

interface DayUsage {
  readonly requests: number;
  readonly cost_rub: string;
}

/** The figures of each charge belong to one request of the tenant, and no request is charged twice. */
function foreignCharges({ index, asked }: Tenant, exact: readonly RequestRecord[]): string[] {
  const numbers = new Set<number>();
  return exact.flatMap(
    ({ id, prompt_tokens: prompt, completion_tokens: completion, cost_rub: cost }) => {
      const number = completion - 1;
      const own = tokensOf({ tenant: index, number });
      const isOwn = prompt === own.prompt && number > 0 && number <= asked && !numbers.has(number);
      numbers.add(number);
      const isRight = nanoOf(cost) === costOf({ prompt, completion });
      return isOwn && isRight ? [] : [`${id} has ${prompt} and ${completion} tokens for ${cost}`];
    },
  );
}

/** The prompt of each estimate has the tenant's length. A response that continues another is longer. */
function foreignEstimates({ index }: Tenant, estimated: readonly RequestRecord[]): string[] {
  const own = promptEstimates(index);
  const chats = estimated.filter(({ endpoint }) => endpoint === "chat");
  return chats.flatMap(({ id, prompt_tokens: prompt }) =>
    own.includes(prompt) ? [] : [`${id} has an estimate of ${prompt} tokens`],
  );
}

/** Every answer that a tenant received whole is recorded with its id and its figures. */
function lostAnswers(answers: Tenant["answers"], records: readonly RequestRecord[]): string[] {
  const byId = new Map(records.map((record) => [record.id, record]));
  return answers.flatMap(({ id, tag }) => {
    const record = byId.get(id);
    byId.delete(id);
    const isThere =
      record?.status === "done" && record.completion_tokens === tokensOf(tag).completion;
    return isThere
      ? []
      : [`${id} was answered with number ${tag.number}: ${JSON.stringify(record)}`];
  });
}

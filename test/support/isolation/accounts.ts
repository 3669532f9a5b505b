import { readDatabaseAt, type RequestRow } from "../auditor/databaseRows.ts";
import { nanoOf } from "../faults/faultSetup.ts";
import { call } from "../gateway/chatCalls.ts";
import { costOf } from "../gateway/gatewayConfig.ts";
import { creditRoubles, type IsolationSetup, type Tenant } from "./setup.ts";
import { promptEstimates, tokensOf } from "./tag.ts";

/** Checks that each tenant is charged exactly for its own requests. No request may be running. */
export async function accountProblems(setup: IsolationSetup): Promise<readonly string[]> {
  const { accounts, requests } = await readDatabaseAt(setup.world.gateway.place);
  const found: string[] = [];
  for (const tenant of setup.tenants) {
    const id = accounts.find(({ name }) => name === tenant.account)?.id;
    const records = requests.filter(({ account }) => account === id);
    const problems = await problemsOf(setup, tenant, records);
    found.push(...problems.map((problem) => `${tenant.account}: ${problem}`));
  }
  return found;
}

async function problemsOf(
  { world }: IsolationSetup,
  tenant: Tenant,
  records: readonly RequestRow[],
): Promise<readonly string[]> {
  const { account, asked, key } = tenant;
  const exact = records.filter(({ charge, estimated }) => charge !== 0n && estimated === 0n);
  const estimated = records.filter((record) => record.estimated === 1n);
  world.count("exact charges", exact.length);
  world.count("estimated charges", estimated.length);
  const paid = records.reduce((sum, { charge }) => sum + charge, 0n);
  const read = async (path: string) => (await call(world.gateway, { key }, { path })).body;
  const usage = (await read("/v1/usage")) as { data: DayUsage[] };
  const [day, ...otherDays] = usage.data;
  const { account: name, balance_rub: balance } = (await read("/v1/account")) as {
    account: string;
    balance_rub: string;
  };
  const wrong: readonly (readonly [boolean, string])[] = [
    [records.length > asked, `${records.length} requests of ${asked} are recorded`],
    [otherDays.length > 0, "it has more than one day; run it again after midnight"],
    [day?.requests !== records.length, `its usage tells of ${day?.requests} requests`],
    [nanoOf(day?.cost_rub ?? "0") !== paid, `its usage costs ${day?.cost_rub}`],
    [name !== account, `its key is ${name}'s`],
    [
      nanoOf(balance) !== nanoOf(creditRoubles) - paid,
      `${balance} roubles are left, and ${paid} nano-roubles were paid`,
    ],
  ];
  return [
    ...wrong.flatMap(([is, what]) => (is ? [what] : [])),
    ...foreignCharges(tenant, exact),
    ...foreignEstimates(tenant, estimated),
    ...lostAnswers(tenant, records),
  ];
}

interface DayUsage {
  readonly requests: number;
  readonly cost_rub: string;
}

/** The figures of each charge belong to one request of the tenant, and no request is charged twice. */
function foreignCharges({ index, asked }: Tenant, exact: readonly RequestRow[]): string[] {
  const numbers = new Set<number>();
  return exact.flatMap((record) => {
    const [prompt, completion] = [Number(record.prompt), Number(record.completion)];
    const number = completion - 1;
    const own = tokensOf({ tenant: index, number });
    const isOwn = prompt === own.prompt && number > 0 && number <= asked && !numbers.has(number);
    numbers.add(number);
    if (isOwn && record.charge === costOf({ prompt, completion })) return [];
    return [`${record.publicId} has ${prompt} and ${completion} tokens for ${record.charge}`];
  });
}

/** The prompt of each estimate has the tenant's length. A response that continues another is longer. */
function foreignEstimates({ index }: Tenant, estimated: readonly RequestRow[]): string[] {
  const own = promptEstimates(index);
  return estimated.flatMap(({ publicId, endpoint, prompt }) =>
    endpoint !== "chat" || own.includes(Number(prompt))
      ? []
      : [`${publicId} has an estimate of ${prompt} tokens`],
  );
}

/** Every answer that a tenant received whole is recorded with its id and its figures. */
function lostAnswers({ answers }: Tenant, records: readonly RequestRow[]): string[] {
  const byId = new Map(records.map((record) => [record.publicId, record]));
  return answers.flatMap(({ id, tag }) => {
    const record = byId.get(id);
    byId.delete(id);
    const isThere =
      record?.status === "done" && Number(record.completion) === tokensOf(tag).completion;
    const shown = `${record?.status} with ${record?.completion} tokens`;
    return isThere ? [] : [`${id} was answered with number ${tag.number}, and is ${shown}`];
  });
}

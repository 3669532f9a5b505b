import type { RawAnswer } from "../world/answerReader.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import type { Connection } from "../world/connection.ts";
import type { IsolationSetup } from "./setup.ts";
import { questionFor, foreignTags, questionOf, type Question } from "./question.ts";
import { everyForm } from "./tag.ts";
import { several } from "../several.ts";

/** One connection, which one tenant uses, or several as with a proxy. */
export interface Client {
  readonly setup: IsolationSetup;
  readonly name: string;
  readonly connection: Connection;
  /** In the order of their answers. */
  readonly waiting: Question[];
}

/** No answer takes this long, on any machine. */
const answerTimeoutMs = 30_000;
const leaveAfterMsMax = 25;
const noAnswer = "an answer is missing";

export async function connectClient(setup: IsolationSetup, name: string): Promise<Client> {
  return { setup, name, connection: await setup.world.connect(), waiting: [] };
}

/** One random client, from its connection to its end. */
export async function runConnection(
  setup: IsolationSetup,
  chance: Chance,
  number: number,
): Promise<void> {
  const manner = weighed(chance, [
    [10, inTurn],
    [3, pipelining],
    [2, impatient],
    [5, leaving],
  ] as const);
  const client = await connectClient(setup, `connection ${number}, ${manner.name}`);
  const one = chance.pick(setup.tenants);
  const asker = chance.chance(0.4) ? () => chance.pick(setup.tenants) : () => one;
  await manner(client, () => questionOf(setup, asker(), chance), chance);
}

type NextQuestion = () => Question;

/** Sends one request after the other, and waits for each answer. */
async function inTurn(client: Client, next: NextQuestion, chance: Chance): Promise<void> {
  for (let left = 1 + chance.below(10); left > 0; left -= 1) {
    send(client, next());
    if (!(await readNextAnswer(client))) return gone(client, noAnswer);
  }
  await disconnect(client, chance);
}

/** Sends several requests at once. */
async function pipelining(client: Client, next: NextQuestion, chance: Chance): Promise<void> {
  for (const question of several(2 + chance.below(4), next)) send(client, question);
  while (client.waiting.length > 0) if (!(await readNextAnswer(client))) return gone(client);
  await disconnect(client, chance);
}

/** Sends the next request during the answer to the previous one. */
async function impatient(client: Client, next: NextQuestion, chance: Chance): Promise<void> {
  for (let left = 2 + chance.below(3); left > 0; left -= 1) {
    send(client, next());
    await Bun.sleep(chance.below(leaveAfterMsMax));
  }
  while (client.waiting.length > 0) if (!(await readNextAnswer(client))) return gone(client);
  await disconnect(client, chance);
}

/** Disconnects during the request or the answer; another client then uses the same provider at once. */
async function leaving(client: Client, draw: NextQuestion, chance: Chance): Promise<void> {
  for (let left = chance.below(3); left > 0; left -= 1) {
    send(client, draw());
    if (!(await readNextAnswer(client))) return gone(client, noAnswer);
  }
  const last = draw();
  const bytes = chance.chance(0.2) ? chance.below(last.bytes.length) : last.bytes.length;
  send(client, last, bytes);
  await Bun.sleep(chance.below(leaveAfterMsMax));
  const { setup, name } = client;
  const next = await connectClient(setup, `${name}, the next one`);
  setup.world.count("left");
  await disconnect(client, chance);
  if (last.lane?.isResting === false) {
    const [tenant, form] = [chance.pick(setup.tenants), chance.pick(everyForm)];
    send(next, questionFor(setup, tenant, form, chance, last.lane));
    if (!(await readNextAnswer(next))) return gone(next, noAnswer);
  }
  await disconnect(next, chance);
}

/** Sends a request, or the beginning of one. */
export function send(
  { setup, connection, waiting }: Client,
  question: Question,
  bytes = question.bytes.length,
): void {
  setup.world.count("requests");
  if (question.lane) question.lane.open += 1;
  waiting.push(question);
  connection.send(question.bytes.subarray(0, bytes));
}

/** Waits for the next answer and checks it; false if there is no further one. */
export async function readNextAnswer(client: Client): Promise<boolean> {
  const answer = await client.connection.next(answerTimeoutMs);
  if (answer === "late") complain(client, "neither an answer nor the end");
  if (typeof answer === "string") return false;
  judge(client, answer);
  return true;
}

/** Checks an answer, which belongs to the first waiting request. */
function judge(client: Client, answer: RawAnswer): void {
  const question = settle(client);
  if (question === undefined) {
    complain(client, `an unsolicited answer: ${shown(answer)}`);
    return;
  }
  const foreign = foreignTags(question, answer);
  if (foreign.length > 0) complain(client, `${question.mark} was answered with ${foreign.join()}`);
  const wrong = question.wrong(answer);
  if (wrong !== undefined)
    complain(client, `${question.kind} ${question.mark}: ${wrong}: ${shown(answer)}`);
  client.setup.world.count(question.kind);
}

/** Disconnects. All bytes that arrived must be the client's own. */
export async function disconnect(client: Client, chance: Chance): Promise<void> {
  const how = chance.pick(["fin", "reset"] as const);
  const rest = await client.connection.disconnect(how, answerTimeoutMs);
  if (rest === undefined) complain(client, "the server keeps a connection whose client is gone");
  for (const { answer } of rest ?? []) judge(client, answer);
  gone(client);
}

/** The connection is closed: no request waits for an answer any more. */
function gone(client: Client, missing?: string): void {
  const { setup, connection, waiting } = client;
  const { part, problem } = connection;
  const foreign = foreignTags(waiting[0], part);
  if (foreign.length > 0) complain(client, `part of an answer bears ${foreign.join()}`);
  if (problem !== undefined) complain(client, problem);
  if (missing !== undefined) complain(client, `${missing}: ${part.toString("latin1", 0, 300)}`);
  setup.world.count("unanswered", waiting.length);
  while (waiting.length > 0) settle(client);
}

function settle({ waiting }: Client): Question | undefined {
  const question = waiting.shift();
  if (question?.lane) question.lane.open -= 1;
  return question;
}

function complain({ setup, name }: Client, problem: string): void {
  setup.world.problems.push(`${name}: ${problem}`);
}

function shown({ status, body }: RawAnswer): string {
  return `${status} ${body.toString("latin1", 0, 300)}`;
}

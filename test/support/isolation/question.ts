import { chunksOf } from "../gateway/chatCalls.ts";
import type { RawAnswer } from "../world/answerReader.ts";
import { weighed, type Chance } from "../seededRandom.ts";
import { requestFor, showsUsage } from "../world/asks.ts";
import type { IsolationSetup, Lane, SeenAnswer, Tenant } from "./setup.ts";
import {
  bodyOf,
  everyForm,
  promptFor,
  responseIdOf,
  answerTextFor,
  tagsIn,
  tagText,
  tokensOf,
  type Tag,
  type TaggedForm,
} from "./tag.ts";

export const questionKinds = [
  ...everyForm,
  "account",
  "own list",
  "own receipt",
  "foreign receipt",
  "foreign response",
] as const;

/** A tenant's request, and the only answer that is right. */
export interface Question {
  readonly kind: (typeof questionKinds)[number];
  readonly bytes: Buffer;
  /** For a request that goes to a provider. */
  readonly lane: Lane | undefined;
  /** The only tag that its answer may contain. */
  readonly mark: string | undefined;
  /** The problem of the answer; undefined if there is none. */
  wrong(answer: RawAnswer): string | undefined;
}

/** Draws what a tenant asks next. */
export function questionOf(setup: IsolationSetup, tenant: Tenant, chance: Chance): Question {
  const kind = weighed(chance, [
    [8, "chat"],
    [8, "chat stream"],
    [6, "responses"],
    [6, "responses stream"],
    [1, "account"],
    [1, "own list"],
    [1, "own receipt"],
    [1, "foreign receipt"],
    [1, "foreign response"],
  ] as const);
  switch (kind) {
    case "account":
      return getting(tenant, kind, "/v1/account", (answer) => {
        const { account } = parsed(answer) as { account?: unknown };
        return account === tenant.account ? undefined : "another account";
      });
    case "own list":
      return ownList(setup, tenant);
    case "own receipt":
      return ownReceipt(tenant, chance) ?? questionFor(setup, tenant, "chat", chance);
    case "foreign receipt":
      return foreignReceipt(setup, tenant, chance) ?? questionFor(setup, tenant, "chat", chance);
    case "foreign response":
      return (
        foreignResponse(setup, tenant, chance) ?? questionFor(setup, tenant, "responses", chance)
      );
    case "chat":
    case "chat stream":
    case "responses":
    case "responses stream":
      return questionFor(setup, tenant, kind, chance);
  }
}

/** A request that must be answered with its tag and nothing else; in any lane, or in this one. */
export function questionFor(
  setup: IsolationSetup,
  tenant: Tenant,
  form: TaggedForm,
  chance: Chance,
  only?: Lane,
): Question {
  const tag = nextTag(tenant);
  const isResponses = form.startsWith("responses");
  const previous = isResponses && !only && chance.chance(0.3) ? latestResponse(tenant) : undefined;
  const lane = only ?? previous?.lane ?? freeLane(setup, chance);
  const goesOn = previous && responseIdOf(previous.tag);
  return {
    kind: form,
    bytes: posted(tenant, form, { lane, tag, goesOn, isLong: chance.chance(0.01) }),
    lane,
    mark: tagText(tag),
    wrong(answer) {
      if (answer.status !== 200) return "no answer";
      const isWhole = form === "chat" || form === "chat stream" ? isChat : isResponse;
      if (!isWhole(form, tag, answer)) return "another answer";
      const id = answer.headers.get("x-request-id") ?? "";
      tenant.answers.push({ id, tag, lane: isResponses ? lane : undefined });
      return undefined;
    },
  };
}

/** From which a request may go on now. */
function latestResponse({ answers }: Tenant): SeenAnswer | undefined {
  return answers.findLast(({ lane }) => lane?.isResting === false);
}

function nextTag(tenant: Tenant): Tag {
  tenant.asked += 1;
  return { tenant: tenant.index, number: tenant.asked };
}

function freeLane({ lanes }: IsolationSetup, chance: Chance): Lane {
  return chance.pick(lanes.filter(({ isResting }) => !isResting));
}

interface Asked {
  readonly lane: Lane;
  readonly tag: Tag;
  readonly goesOn?: string | undefined;
  readonly isLong?: boolean;
}

/** The request, in which the tag comes early and before any other. */
function posted({ key }: Tenant, form: TaggedForm, asked: Asked): Buffer {
  const { lane, tag, goesOn, isLong = false } = asked;
  return requestFor(key, form, {
    model: lane.id,
    prompt: promptFor(tag, isLong),
    ...(form === "chat stream" ? showsUsage : {}),
    previous_response_id: goesOn,
  });
}

function isChat(form: TaggedForm, tag: Tag, answer: RawAnswer): boolean {
  const { prompt, completion } = tokensOf(tag);
  const parts = form === "chat" ? [parsed(answer)] : chunksOf({ text: answer.body.toString() });
  const said = parts.map(({ choices }) => {
    const [choice] = choices as { message?: Said; delta?: Said }[];
    return (choice?.message ?? choice?.delta)?.content ?? "";
  });
  const usage = parts.at(-1)?.["usage"] as Record<string, unknown> | undefined;
  return (
    said.join("") === answerTextFor(tag) &&
    usage?.["prompt_tokens"] === prompt &&
    usage["completion_tokens"] === completion
  );
}

interface Said {
  readonly content?: string;
}

function isResponse(form: TaggedForm, tag: Tag, answer: RawAnswer): boolean {
  return answer.body.toString() === bodyOf(form, tag).join("");
}

/** A list of requests: all of the tenant's one key, and none that another tenant made. */
function ownList({ tenants }: IsolationSetup, tenant: Tenant): Question {
  return getting(tenant, "own list", "/v1/requests?limit=100", (answer) => {
    const { data } = parsed(answer) as { data?: readonly { id: string; key_id: string }[] };
    if (data === undefined) return "no list";
    const listed = new Set(data.map(({ id }) => id));
    const isForeign = tenants.some(
      (one) => one !== tenant && one.answers.some(({ id }) => listed.has(id)),
    );
    const keys = new Set(data.map(({ key_id }) => key_id));
    return isForeign || keys.size > 1 ? "another's request is listed" : undefined;
  });
}

/** The cost of the tenant's own request, as the tenant sees it. */
function ownReceipt(tenant: Tenant, chance: Chance): Question | undefined {
  if (tenant.answers.length === 0) return undefined;
  const { id, tag } = chance.pick(tenant.answers);
  return getting(tenant, "own receipt", `/v1/requests/${id}`, (answer) => {
    const { prompt, completion } = tokensOf(tag);
    const told = parsed(answer);
    const isOwn =
      told["id"] === id &&
      told["status"] === "done" &&
      told["prompt_tokens"] === prompt &&
      told["completion_tokens"] === completion;
    return isOwn ? undefined : "another receipt";
  });
}

function foreignReceipt(
  { tenants }: IsolationSetup,
  tenant: Tenant,
  chance: Chance,
): Question | undefined {
  const { answers } = chance.pick(tenants.filter((one) => one !== tenant));
  if (answers.length === 0) return undefined;
  const { id } = chance.pick(answers);
  return getting(tenant, "foreign receipt", `/v1/requests/${id}`, (answer) =>
    isRefused(answer, "request not found") ? undefined : "another's receipt is not refused",
  );
}

function foreignResponse(
  setup: IsolationSetup,
  tenant: Tenant,
  chance: Chance,
): Question | undefined {
  const made = latestResponse(chance.pick(setup.tenants.filter((one) => one !== tenant)));
  if (made?.lane === undefined) return undefined;
  const tag = nextTag(tenant);
  setup.provider.forbidden.add(tagText(tag));
  const form = chance.pick(everyForm.filter((one) => one.startsWith("responses")));
  return {
    kind: "foreign response",
    bytes: posted(tenant, form, { lane: made.lane, tag, goesOn: responseIdOf(made.tag) }),
    lane: made.lane,
    mark: undefined,
    wrong: (answer) =>
      isRefused(answer, "response not found") ? undefined : "another's response is not refused",
  };
}

function isRefused(answer: RawAnswer, message: string): boolean {
  const error = { message, type: "invalid_request_error" };
  return answer.status === 404 && Bun.deepEquals(parsed(answer), { error });
}

function getting(
  { key }: Tenant,
  kind: Question["kind"],
  path: string,
  wrong: (answer: RawAnswer) => string | undefined,
): Question {
  const bytes = Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  );
  return { kind, bytes, lane: undefined, mark: undefined, wrong };
}

/** The body as an object; an empty one where it is none. */
function parsed({ body }: RawAnswer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString()) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** The tags of other requests in an answer, head included, or in a part of one. */
export function foreignTags(question: Question | undefined, came: RawAnswer | Buffer): string[] {
  const text = Buffer.isBuffer(came)
    ? came.toString("latin1")
    : JSON.stringify([...came.headers]) + came.body.toString("latin1");
  return tagsIn(text).filter((tag) => tag !== question?.mark);
}

import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { sha256 } from "../../../src/lib/sha256.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import {
  created,
  delta,
  ended,
  responds,
  terminal,
} from "../../support/provider/responsesAnswers.ts";
import { openResponse, respond } from "../../support/gateway/responsesCalls.ts";
import {
  json,
  piece,
  refusal,
  stream,
  streamHead,
  type ProviderAnswer,
  type ReceivedRequest,
} from "../../support/provider/scriptedProvider.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { until } from "../../support/until.ts";
import { responseEvent, responseObject } from "../../support/provider/upstreamText.ts";

const sharedFile = "file_shared";
const at = openBefore(["first", "second"], ({ first, second }) => ({
  providers: { first, second },
  models: [
    { id: "small", routes: [{ provider: "first" }, { provider: "second" }] },
    { id: "elsewhere", routes: [{ provider: "second" }] },
  ],
  sections: {
    api: {
      shared_objects: [sharedFile, "pmpt_shared"],
      allowed_tools: ["file_search", "code_interpreter"],
    },
  },
}));

let count = 1_000_000;
/** New in each test, so that nothing is known from the test before. A newer id sorts before an older one, so the order means nothing. */
const newId = () => `resp_${(count -= 1)}`;

/** The number of requests that each provider received. */
function got(): Record<"first" | "second", number> {
  const { first, second } = at.providers;
  return { first: first.requests.length, second: second.requests.length };
}

/** Creates a response at one of the providers, as JSON or as a stream, and clears the recorded requests. */
async function made(by: "first" | "second", key: TestKey, isStream = false): Promise<string> {
  const id = newId();
  at.providers.first.answer = by === "first" ? responds(id) : refusal(500);
  at.providers.second.answer = by === "second" ? responds(id) : refusal(500);
  const reply = await respond(at.gateway, key, { stream: isStream });
  expect(reply.status).toBe(200);
  expect(reply.text).toContain(id);
  for (const provider of Object.values(at.providers)) provider.forget();
  return id;
}

/** Creates a response with this output at the second provider, and clears the recorded requests. */
async function madeBySecond(
  id: string,
  output: readonly object[],
  key: TestKey,
  isStream: boolean,
) {
  at.providers.first.answer = refusal(500);
  at.providers.second.answer = isStream
    ? stream(created(id), delta, terminal("completed", id, { output }))
    : json(ended(id, { output }));
  expect((await respond(at.gateway, key, { stream: isStream })).status).toBe(200);
  for (const provider of Object.values(at.providers)) provider.forget();
}

function answerBoth(answer: ProviderAnswer): void {
  for (const provider of Object.values(at.providers)) provider.answer = answer;
}

const notFound = (what: string) => ({
  status: 404,
  body: { error: { message: `${what} not found`, type: "invalid_request_error" } },
});

describe("an answer with many items", () => {
  const items = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ id: `item_${count}_${at}`, type: "message" }));
  const forms: [string, boolean, (output: object[]) => ProviderAnswer][] = [
    ["JSON", false, (output) => json(ended(newId(), { output }))],
    [
      "a stream",
      true,
      (output) => stream(created(), delta, terminal("completed", newId(), { output })),
    ],
  ];

  test.each(forms)(
    "as %s, is recorded with all of them, in one write",
    async (...[, isStream, of]) => {
      const write = spyOn(at.gateway.app.gateway.writer, "writeWithin");
      answerBoth(of(items(1024)));
      const key = await at.gateway.key();
      expect((await respond(at.gateway, key, { stream: isStream })).status).toBe(200);
      const owns = write.mock.calls.filter(([{ kind }]) => kind === "recordOwners");
      write.mockRestore();
      expect(owns.length).toBeLessThanOrEqual(2);
      expect(owns.at(-1)?.[0]).toMatchObject({ objects: { length: 1025 } });
    },
  );

  test.each(forms)("over 1,024 is refused, as %s", async (...[, isStream, of]) => {
    answerBoth(of(items(1025)));
    const reply = await respond(at.gateway, await at.gateway.key(), { stream: isStream });
    expect(reply.text).toContain("provider_error");
  });
});

describe("a stream that repeats its objects", () => {
  const createdWith = (items: readonly object[]) =>
    responseEvent("response.created", { response: responseObject(newId(), { output: items }) });

  test("records each when it is first named, and again at the end with its tokens", async () => {
    const write = spyOn(at.gateway.app.gateway.writer, "writeWithin");
    const id = newId();
    const again = [created(id), delta, created(id), created(id)];
    answerBoth(stream(...again, terminal("completed", id)));
    expect((await respond(at.gateway, await at.gateway.key(), { stream: true })).status).toBe(200);
    const recorded = write.mock.calls.flatMap(([operation]) =>
      operation.kind === "recordOwners" ? operation.objects : [],
    );
    write.mockRestore();
    const hashes = [id, id, `msg_${id}`].map((named) => sha256(named).toHex());
    expect(recorded.map(({ hash }) => hash.toHex())).toEqual(hashes);
  });

  test("is cut when they are more than one response can have: the sent part is recorded and charged", async () => {
    const lists = Array.from({ length: 5 }, (_, list) =>
      Array.from({ length: 1024 }, (_, at) => ({ id: `many_${list}_${at}`, type: "message" })),
    );
    answerBoth(stream(delta, ...lists.map(createdWith), terminal()));
    const key = await at.gateway.key();
    const reply = await respond(at.gateway, key, { stream: true });
    const given = lists.flat().filter(({ id }) => reply.text.includes(`"${id}"`));
    expect(given).toEqual(lists.slice(0, 3).flat());
    expect(reply.text).toContain("event: error");
    expect(await at.gateway.records(key, 1)).toMatchObject([
      { status: "cancelled", estimated: true },
    ]);

    answerBoth(responds(newId()));
    const referTo = ({ id }: { id: string }) =>
      respond(at.gateway, key, { input: [{ type: "item_reference", id }] });
    for (const one of [lists[0]?.[0], lists[2]?.[1023]]) {
      expect((await referTo(one ?? { id: "" })).status).toBe(200);
    }
    expect(await referTo(lists[3]?.[0] ?? { id: "" })).toMatchObject(notFound("resource"));
  });
});

describe("previous_response_id", () => {
  test.each([
    ["first", false],
    ["first", true],
    ["second", false],
    ["second", true],
  ] as const)(
    "goes to the provider that created it, the %s, and to no other (stream: %p)",
    async (by, isStream) => {
      const key = await at.gateway.key();
      const id = await made(by, key, isStream);
      answerBoth(responds(newId()));
      for (const stream of [false, true]) {
        const body = `{"model":"small","stream":${stream},"input":"go on","previous_response_id":"${id}"}`;
        expect((await respond(at.gateway, key, body)).status).toBe(200);
        expect(at.providers[by].requests.at(-1)?.body).toBe(body);
      }
      expect(got()).toEqual({ first: 0, second: 0, [by]: 2 });
    },
  );

  test.each(["first", "second"] as const)(
    "is a 502 while the provider that created it, the %s, is down",
    async (by) => {
      const key = await at.gateway.key();
      const id = await made(by, key);
      answerBoth(responds(newId()));
      at.providers[by].answer = refusal(500);
      expect(await respond(at.gateway, key, { previous_response_id: id })).toMatchObject({
        status: 502,
        body: { error: { message: "all providers unavailable", type: "provider_error" } },
      });
      expect(got()).toEqual({ first: 0, second: 0, [by]: 1 });
    },
  );

  test("may be a response of another key of the same account", async () => {
    const key = await at.gateway.key();
    const id = await made("second", key);
    answerBoth(responds(newId()));
    const other = await at.gateway.key({ account: key.account });
    expect((await respond(at.gateway, other, { previous_response_id: id })).status).toBe(200);
    expect(got()).toEqual({ first: 0, second: 1 });
  });

  test("may be a response whose stream was cut: it is recorded before its first byte is sent", async () => {
    const id = newId();
    const key = await at.gateway.key();
    let isSeen = false;
    at.providers.first.answer = async (peer) => {
      await peer.send(Buffer.concat([Buffer.from(streamHead), piece(created(id) + delta)]));
      await until("the client has it", () => isSeen);
      peer.reset();
    };
    const reply = await openResponse(at.gateway, key);
    await reply.seen("Hello there");
    isSeen = true;
    await until("the stream is over", () => reply.isOver);
    expect(reply.text).not.toContain(terminal());
    for (const provider of Object.values(at.providers)) provider.forget();

    answerBoth(responds(newId()));
    expect((await respond(at.gateway, key, { previous_response_id: id })).status).toBe(200);
    expect(got()).toEqual({ first: 1, second: 0 });
  });

  const strangers = [
    ["another account's", (_: TestKey, foreign: string) => foreign],
    ["an id that never existed", () => "resp_never"],
    ["an empty one", () => ""],
    ["an id with a space after it", (_: TestKey, __: string, own: string) => `${own} `],
    ["an id in another letter case", (_: TestKey, __: string, own: string) => own.toUpperCase()],
    ["a shared object's", () => sharedFile],
  ] as const;

  test.each(strangers)(
    "that is %s gets the same 404, and nothing is sent or held",
    async (_, idOf) => {
      const key = await at.gateway.key();
      const foreign = await made("first", await at.gateway.key());
      const own = await made("first", key);
      answerBoth(responds(newId()));
      for (const stream of [false, true]) {
        const id = idOf(key, foreign, own);
        const reply = await respond(at.gateway, key, { stream, previous_response_id: id });
        expect(reply).toMatchObject(notFound("response"));
      }
      expect(got()).toEqual({ first: 0, second: 0 });
      // The earlier response is the only record.
      expect(await at.gateway.records(key, 1)).toHaveLength(1);
    },
  );

  test.each([[5], [{ id: "resp_1" }], [["resp_1"]], [true]])(
    "of another type, %j, is a 400",
    async (id) => {
      const reply = await respond(at.gateway, await at.gateway.key(), { previous_response_id: id });
      expect(reply).toMatchObject({
        status: 400,
        body: { error: { message: "previous_response_id must be a string" } },
      });
    },
  );
});

describe("prompt_cache_options.comparison_response_id", () => {
  const comparedWith = (id: unknown) => ({
    prompt_cache_options: { mode: "explicit", comparison_response_id: id },
  });

  test.each(["first", "second"] as const)(
    "goes to the provider that created it, the %s, and to no other",
    async (by) => {
      const key = await at.gateway.key();
      const id = await made(by, key);
      answerBoth(responds(newId()));
      expect((await respond(at.gateway, key, comparedWith(id))).status).toBe(200);
      expect(got()).toEqual({ first: 0, second: 0, [by]: 1 });
      at.providers[by].answer = refusal(500);
      expect((await respond(at.gateway, key, comparedWith(id))).status).toBe(502);
    },
  );

  test("of another account is the same 404 as an unknown id, and nothing is sent or held", async () => {
    const key = await at.gateway.key();
    const foreign = await made("first", await at.gateway.key());
    answerBoth(responds(newId()));
    for (const id of [foreign, "resp_never", "", sharedFile]) {
      expect(await respond(at.gateway, key, comparedWith(id))).toMatchObject(notFound("response"));
    }
    expect(got()).toEqual({ first: 0, second: 0 });
    expect(await at.gateway.records(key, 0)).toHaveLength(0);
  });
});

/** Ways to reference a stored object by its id. */
const references: readonly (readonly [name: string, body: (id: string) => object])[] = [
  ["item_reference", (id) => ({ input: [{ type: "item_reference", id }] })],
  ["an item without a type", (id) => ({ input: [{ id }] })],
  ["conversation", (id) => ({ conversation: id })],
  ["conversation.id", (id) => ({ conversation: { id } })],
  ["prompt", (id) => ({ prompt: { id, version: "2" } })],
  [
    "file_id of a file",
    (id) => ({ input: [{ role: "user", content: [{ type: "input_file", file_id: id }] }] }),
  ],
  [
    "file_id of an image",
    (id) => ({ input: [{ role: "user", content: [{ type: "input_image", file_id: id }] }] }),
  ],
  [
    "vector_store_ids",
    (id) => ({ tools: [{ type: "file_search", vector_store_ids: [sharedFile, id] }] }),
  ],
  [
    "an earlier call's container_id",
    (id) => ({ input: [{ type: "code_interpreter_call", container_id: id, code: "" }] }),
  ],
  ["container", (id) => ({ tools: [{ type: "code_interpreter", container: id }] })],
  [
    "a container's file_ids",
    (id) => ({
      tools: [{ type: "code_interpreter", container: { type: "auto", file_ids: [id] } }],
    }),
  ],
  [
    "a prompt's variable",
    (id) => ({
      prompt: { id: "pmpt_shared", variables: { doc: { type: "input_file", file_id: id } } },
    }),
  ],
];

describe("the id of a stored object", () => {
  test.each(references)("of unknown origin is a 404, and nothing is sent: %s", async (_, body) => {
    const foreign = `msg_${await made("first", await at.gateway.key())}`;
    answerBoth(responds(newId()));
    for (const id of ["obj_never", foreign, ""]) {
      const reply = await respond(at.gateway, await at.gateway.key(), body(id));
      expect(reply).toMatchObject(notFound("resource"));
    }
    expect(got()).toEqual({ first: 0, second: 0 });
  });

  test.each(references)("that the config shares may go to any provider: %s", async (_, body) => {
    answerBoth(responds(newId()));
    expect((await respond(at.gateway, await at.gateway.key(), body(sharedFile))).status).toBe(200);
    expect(got()).toEqual({ first: 1, second: 0 });
  });

  test.each(references)(
    "of an item from the account's own response goes to its provider only: %s",
    async (_, body) => {
      const key = await at.gateway.key();
      for (const by of ["first", "second"] as const) {
        const item = `msg_${await made(by, key, by === "first")}`;
        answerBoth(responds(newId()));
        const { requests } = at.providers[by];
        expect((await respond(at.gateway, key, body(item))).status).toBe(200);
        expect(got()).toEqual({ first: 0, second: 0, [by]: 1 });
        expect((requests[0] as ReceivedRequest).body).toContain(item);
      }
    },
  );

  test("in a text or in the caller's own message is no reference", async () => {
    answerBoth(responds(newId()));
    for (const input of [
      "msg_never",
      [{ type: "message", id: "msg_never", role: "user", content: "file_id" }],
    ]) {
      expect((await respond(at.gateway, await at.gateway.key(), { input })).status).toBe(200);
    }
  });
});

describe("encrypted reasoning that is sent back", () => {
  const sealed = (...ids: unknown[]) => ({
    input: ids.map((id) => ({ type: "reasoning", id, summary: [], encrypted_content: "x" })),
  });
  const item = (id: string) => `msg_${id}`;

  test.each(["first", "second"] as const)(
    "goes to the provider that created it, the %s, and to no other: no other can read it",
    async (by) => {
      const key = await at.gateway.key();
      const id = item(await made(by, key));
      answerBoth(responds(newId()));
      expect((await respond(at.gateway, key, sealed(id))).status).toBe(200);
      expect(got()).toEqual({ first: 0, second: 0, [by]: 1 });
      at.providers[by].answer = refusal(500);
      expect((await respond(at.gateway, key, sealed(id))).status).toBe(502);
      expect(got()).toEqual({ first: 0, second: 0, [by]: 2 });
    },
  );

  test("goes to any provider when its id is unknown or another account's", async () => {
    const foreign = item(await made("second", await at.gateway.key()));
    answerBoth(responds(newId()));
    for (const id of ["rs_never", foreign, "", undefined, 5]) {
      expect((await respond(at.gateway, await at.gateway.key(), sealed(id))).status).toBe(200);
    }
    expect(got()).toEqual({ first: 5, second: 0 });
  });

  test.each([
    ["first", "second"],
    ["second", "first"],
  ] as const)("of two providers goes to the newer one: %s, then %s", async (older, newer) => {
    const key = await at.gateway.key();
    const ids = [item(await made(older, key)), item(await made(newer, key))];
    answerBoth(responds(newId()));
    expect((await respond(at.gateway, key, sealed(...ids))).status).toBe(200);
    expect(got()).toEqual({ first: 0, second: 0, [newer]: 1 });
  });
});

describe("for a model that the creating provider does not serve", () => {
  const item = (id: string) => ({ input: [{ type: "item_reference", id }] });

  test.each<[string, string, (ids: { first: string; second: string }) => object]>([
    ["a response", "response", ({ first }) => ({ previous_response_id: first })],
    ["an item", "resource", ({ first }) => item(`msg_${first}`)],
    [
      "an item, with a response of the model's own provider",
      "resource",
      ({ first, second }) => ({ previous_response_id: second, ...item(`msg_${first}`) }),
    ],
  ])("%s is a 404, and nothing is sent or held", async (_, what, body) => {
    const key = await at.gateway.key();
    const ids = { first: await made("first", key), second: await made("second", key) };
    answerBoth(responds(newId()));
    for (const stream of [false, true]) {
      const asked = { model: "elsewhere", stream, ...body(ids) };
      expect(await respond(at.gateway, key, asked)).toMatchObject(notFound(what));
    }
    expect(got()).toEqual({ first: 0, second: 0 });
    expect(await at.gateway.records(key, 2)).toHaveLength(2);
  });
});

describe("a container of a response's calls", () => {
  test.each([false, true])(
    "can be referenced by its account only (stream: %j)",
    async (isStream) => {
      const key = await at.gateway.key();
      const id = newId();
      const call = (of: object) => ({ status: "completed", ...of });
      const output = [
        call({ type: "code_interpreter_call", id: `ci_${id}`, container_id: `one_${id}` }),
        call({ type: "shell_call", id: `sh_${id}`, environment: { container_id: `two_${id}` } }),
      ];
      await madeBySecond(id, output, key, isStream);

      answerBoth(responds(newId()));
      expect((await respond(at.gateway, key, { input: output })).status).toBe(200);
      expect(got()).toEqual({ first: 0, second: 1 });
      for (const item of output) {
        const withoutId = [{ ...item, id: undefined }];
        const reply = await respond(at.gateway, await at.gateway.key(), { input: withoutId });
        expect(reply).toMatchObject(notFound("resource"));
      }
      expect(got()).toEqual({ first: 0, second: 1 });
    },
  );
});

describe("a local shell call", () => {
  const answered = (id: string) => ({
    input: [{ type: "local_shell_call_output", id, output: "x" }],
  });

  test.each([false, true])(
    "is answered by its call_id or its id, by its own account only (stream: %j)",
    async (isStream) => {
      const key = await at.gateway.key();
      const id = newId();
      const output = [{ type: "local_shell_call", id: `lsh_${id}`, call_id: `call_${id}` }];
      await madeBySecond(id, output, key, isStream);

      answerBoth(responds(newId()));
      for (const named of [`lsh_${id}`, `call_${id}`]) {
        expect((await respond(at.gateway, key, answered(named))).status).toBe(200);
        const reply = await respond(at.gateway, await at.gateway.key(), answered(named));
        expect(reply).toMatchObject(notFound("resource"));
      }
      expect(got()).toEqual({ first: 0, second: 2 });
    },
  );

  test("is the only call whose call_id is recorded: other call_ids are not checked", async () => {
    const key = await at.gateway.key();
    const id = newId();
    const output = [{ type: "function_call", id: `fc_${id}`, call_id: `call_${id}` }];
    answerBoth(json(ended(id, { output })));
    expect((await respond(at.gateway, key)).status).toBe(200);
    const reply = await respond(at.gateway, key, answered(`call_${id}`));
    expect(reply).toMatchObject(notFound("resource"));
  });
});

describe("after 31 days", () => {
  afterEach(() => at.gateway.clock.advance(-32 * 24 * 3_600_000));

  test("a response is unknown", async () => {
    const key = await at.gateway.key();
    const id = await made("first", key);
    at.gateway.clock.advance(30 * 24 * 3_600_000);
    answerBoth(responds(newId()));
    expect((await respond(at.gateway, key, { previous_response_id: id })).status).toBe(200);
    at.gateway.clock.advance(2 * 24 * 3_600_000);
    expect(await respond(at.gateway, key, { previous_response_id: id })).toMatchObject(
      notFound("response"),
    );
  });
});

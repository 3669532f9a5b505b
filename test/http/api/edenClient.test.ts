import { describe, expect, test } from "bun:test";
import { treaty } from "@elysiajs/eden";
import type { TollgateApp } from "../../../src/http/server.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { issueVoucher } from "../../support/store/vouchers.ts";

const at = openOneModelBefore();

/** A client whose calls and answers have the types that the routes declare. */
function clientOf({ key }: Pick<TestKey, "key">) {
  return treaty<TollgateApp>(at.gateway.url, {
    headers: { authorization: `Bearer ${key}` },
    parseDate: false,
  }).v1;
}

/** The compiler checks the type of `value` here; at run time this does nothing. */
function typed<Type>(value: Type): Type {
  return value;
}

describe("an Eden client", () => {
  test("lists models and shows one, with typed prices", async () => {
    const client = clientOf(await at.gateway.key());
    const { data: list } = await client.models.get();
    expect(list?.data.map(({ id }) => typed<string>(id))).toEqual(["small"]);
    const { data: model } = await client.models({ id: "small" }).get();
    expect(typed<number | undefined>(model?.rub_input_per_1m)).toBe(
      list?.data[0]?.rub_input_per_1m,
    );
    const { error } = await client.models({ id: "unknown" }).get();
    expect(error?.status).toBe(404);
    if (error?.status === 404) {
      expect(typed<"invalid_request_error">(error.value.error.type)).toBe("invalid_request_error");
      expect(error.value.error.message).toBe("model not found");
    }
  });

  test("shows the account, the usage and one request of a key", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key({ label: "laptop" });
    const { id } = await chat(at.gateway, key);
    const client = clientOf(key);
    const { data: account } = await client.account.get();
    expect(account?.account).toBe(key.account);
    expect(typed<string | null | undefined>(account?.key.label)).toBe("laptop");
    const { data: usage } = await client.usage.get({ query: { by: "model", since: "7d" } });
    expect(usage?.data.map(({ model, requests }) => [model, requests])).toEqual([["small", 1]]);
    const { data: hours } = await client.usage.get({ query: { by: "hour,model" } });
    expect(typed<string | undefined>(hours?.data[0]?.hour)).toEndWith(":00:00.000Z");
    const { data: page } = await client.requests.get({ query: { limit: "5", status: "done" } });
    expect(page?.data.map((one) => typed<string>(one.id))).toEqual([id]);
    expect(typed<string | null | undefined>(page?.next)).toBeNull();
    const { data: receipt } = await client.requests({ id }).get();
    expect(receipt).toMatchObject({ id, endpoint: "chat", status: "done" });
    expect(typed<string | undefined>(receipt?.cost_rub)).toBe(usage?.data[0]?.cost_rub);
  });

  test("redeems a voucher with a typed body and answer", async () => {
    const { code } = await issueVoucher(at.gateway.store, { amount: 5n });
    const client = clientOf(await at.gateway.key({ balance: 0n }));
    const { data } = await client.vouchers.redeem.post({ code });
    expect(typed<boolean | undefined>(data?.applied)).toBe(true);
    expect(typed<string | undefined>(data?.balance_rub)).toBe("0.000000005");
    const { error } = await client.vouchers.redeem.post({ code: "7Q2MV" });
    expect(error?.status).toBe(400);
  });

  test("posts a chat with a typed body", async () => {
    at.provider.answer = usual;
    const client = clientOf(await at.gateway.key());
    const { data } = await client.chat.completions.post({
      model: "small",
      messages: [{ role: "user", content: "hello" }],
    });
    expect(typed<string | undefined>(data?.choices[0]?.message.content)).toBeString();
  });

  test("posts an embeddings request with a typed body", async () => {
    const client = clientOf(await at.gateway.key());
    const { data, error } = await client.embeddings.post({ model: "small", input: ["a", "b"] });
    expect(typed<number | undefined>(data?.data[0]?.index)).toBeUndefined();
    expect(error?.value).toMatchObject({
      error: { message: "model is not an embedding model: use /v1/chat/completions" },
    });
  });

  test("gets a typed error for a wrong key", async () => {
    const { data, error } = await clientOf({ key: "sk-tg-wrong" }).account.get();
    expect([data, error?.status]).toEqual([null, 401]);
    if (error?.status === 401) expect(error.value.error.type).toBe("auth_error");
  });
});

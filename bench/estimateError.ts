/** How far an estimate is from what real tokenizers count: `bun bench/estimateError.ts`. See docs/concepts/estimates.md. */

import cl100k from "js-tiktoken/ranks/cl100k_base";
import o200k from "js-tiktoken/ranks/o200k_base";
import { readFileSync } from "node:fs";
import { Tiktoken } from "js-tiktoken/lite";
import { estimateGeneratedTokens } from "../src/billing/estimate.ts";

const tokenizers = { cl100k: new Tiktoken(cl100k), o200k: new Tiktoken(o200k) };
/** How many tokens a provider puts into one delta. */
const TOKENS_PER_DELTA = [1, 2, 3, 4, 8];
const WINDOW_DELTAS = 10;

const english = `A mutex protects one value from two threads at the same time. Before a thread reads or changes the value, it locks the mutex; when it has finished, it unlocks it. If another thread already holds the lock, the first one waits. This sounds simple, but two rules are easy to forget. First, keep the locked part short, because everybody else is waiting. Second, if you need two locks, always take them in the same order, otherwise each thread can hold one lock and wait for the other for ever.

In your example the timeout is not the cause of the problem. The connection pool has ten connections, and every request keeps its connection while it calls an external service. When that service becomes slow, all ten connections are busy, and new requests have to wait even though the database itself has nothing to do. I would suggest the following steps:

1. Read what you need from the database and return the connection to the pool.
2. Call the external service with a timeout of a few seconds.
3. Take a new connection and save the result.

The price of this change is that the data may have changed between the first and the third step. If that matters, add a version column and compare it when you save. For a small shop with a few hundred orders a day this will almost never happen, but the check costs nothing and it makes the behaviour easy to explain.
`;

const russian = `Мьютекс защищает одно значение от одновременного доступа из двух потоков. Прежде чем прочитать или изменить это значение, поток захватывает мьютекс, а закончив работу, освобождает его. Если блокировку уже держит другой поток, первый ждёт. Звучит просто, но два правила легко забыть. Во-первых, защищённый участок кода должен быть коротким, потому что остальные в это время ждут. Во-вторых, если нужны две блокировки, захватывайте их всегда в одном и том же порядке, иначе каждый поток может держать одну и бесконечно ждать вторую.

В вашем примере причина не в тайм-ауте. В пуле десять соединений, и каждый запрос удерживает своё соединение, пока обращается к внешнему сервису. Когда этот сервис начинает работать медленно, заняты все десять соединений, и новым запросам приходится ждать, хотя сама база данных ничем не занята. Я бы предложил сделать так:

1. Прочитайте из базы всё, что нужно, и верните соединение в пул.
2. Вызовите внешний сервис с тайм-аутом в несколько секунд.
3. Возьмите новое соединение и сохраните результат.

Цена такого изменения в том, что между первым и третьим шагом данные могли измениться. Если это важно, добавьте столбец с номером версии и сравнивайте его при сохранении. Для небольшого магазина с несколькими сотнями заказов в день такое почти никогда не произойдёт, но проверка ничего не стоит, а поведение становится проще объяснить.
`;

const chinese = `互斥锁保护一个值，防止两个线程同时访问它。线程在读取或修改这个值之前先加锁，完成之后再解锁。如果锁已经被另一个线程持有，当前线程就会等待。听起来很简单，但有两条规则容易被忘记。第一，加锁的代码要尽量短，因为其他线程都在等待。第二，如果需要两把锁，请始终按照相同的顺序获取，否则每个线程可能各持有一把锁，并且永远等待另一把。

在你的例子里，问题的原因不是超时。连接池里有十个连接，每个请求在调用外部服务时都一直占用着自己的连接。当那个服务变慢时，十个连接全部被占用，新的请求只能等待，尽管数据库本身并没有什么事情要做。我建议按下面的步骤修改：

1. 从数据库读取需要的数据，然后把连接还给连接池。
2. 调用外部服务，并设置几秒钟的超时时间。
3. 重新获取一个连接，保存结果。

这样修改的代价是，在第一步和第三步之间数据可能已经发生变化。如果这一点很重要，可以增加一个版本号字段，在保存时进行比较。对于每天只有几百个订单的小商店来说，这种情况几乎不会发生，但检查没有什么成本，而且行为更容易解释。
`;

const source = (path: string): string =>
  readFileSync(new URL(`../src/${path}`, import.meta.url), "utf8");
const code = source("billing/holds.ts") + source("gateway/decoding/chatDecoder.ts");

const call = {
  city: "Berlin",
  days: [1, 2, 3],
  filter: { minPrice: 10.5, tags: ["new", "sale"], createdAfter: "2026-01-15T10:00:00Z" },
};
const json = JSON.stringify(call).repeat(10);

const texts = {
  English: english,
  Russian: russian,
  Chinese: chinese,
  "TypeScript code": code,
  "JSON arguments": json,
};

/** The sizes in bytes of the deltas of a stream. A server keeps back a character until all its tokens are there. */
function deltaSizes(tokenizer: Tiktoken, tokens: readonly number[], perDelta: number): number[] {
  const sizes: number[] = [];
  let pending: number[] = [];
  for (let at = 0; at < tokens.length; at += perDelta) {
    pending.push(...tokens.slice(at, at + perDelta));
    const text = tokenizer.decode(pending);
    if (text.endsWith("\ufffd")) continue;
    sizes.push(Buffer.byteLength(text));
    pending = [];
  }
  return sizes;
}

function errorOf(estimate: number, tokens: number): string {
  const percent = Math.round((estimate / tokens - 1) * 100);
  return `${percent > 0 ? "+" : ""}${percent}%`;
}

function highestMean(sizes: readonly number[]): number {
  const means = sizes
    .slice(WINDOW_DELTAS - 1)
    .map((_, at) => sum(sizes.slice(at, at + WINDOW_DELTAS)) / WINDOW_DELTAS);
  return Math.max(...means);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

const rows = Object.entries(texts).flatMap(([name, text]) =>
  Object.entries(tokenizers).map(([tokenizerName, tokenizer]) => {
    const bytes = Buffer.byteLength(text);
    const tokens = tokenizer.encode(text);
    const sizes = deltaSizes(tokenizer, tokens, 1);
    const errors = TOKENS_PER_DELTA.map((perDelta) => {
      const deltas = deltaSizes(tokenizer, tokens, perDelta).length;
      return [
        `${perDelta} a delta`,
        errorOf(estimateGeneratedTokens({ bytes, deltas }), tokens.length),
      ];
    });
    return Object.fromEntries([
      ["text", name],
      ["tokenizer", tokenizerName],
      ["tokens", tokens.length],
      ["bytes/token", (bytes / tokens.length).toFixed(1)],
      ["over 10", highestMean(sizes).toFixed(1)],
      ["longest", Math.max(...sizes)],
      ["by bytes", errorOf(estimateGeneratedTokens({ bytes }), tokens.length)],
      ...errors,
    ]);
  }),
);
console.table(rows);

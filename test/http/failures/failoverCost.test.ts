import { expect, test } from "bun:test";
import { seededRandom } from "../../support/seededRandom.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";
import { several } from "../../support/several.ts";

const ids = ["one", "two", "three"] as const;
const at = openBefore(ids, (providers) => ({
  providers,
  models: [
    {
      id: "small",
      routes: ids.map((provider, priority) => ({ provider, priority })),
    },
  ],
}));

const requests = 1000;
const answerMsMax = 40;
/** Longer than the wait before it, so that most who have a place are seen at a provider. */
const thirdMs = 600;
const seed = 50;

test.each([
  ["50 at once", 50, 404, 10],
  // Open circuit breakers leave few requests that try a third route. A 404 opens none.
  ["50 at once, whose failures open breakers", 50, 503, 0],
  ["10 at once", 10, 404, 5],
] as const)(
  "with half of all attempts failing, third attempts are a fifth of the requests under way at most, or three: %s",
  async (_, atOnce, status, thirdsMin) => {
    const random = seededRandom(seed);
    const attempts = new Map<string, number>();
    let exchangesInFlight = 0;
    let thirds = 0;
    let thirdsAtOnce = 0;
    let thirdsAtOnceMost = 0;
    for (const id of ids)
      at.providers[id].answer = async (peer, request) => {
        const name = request.headers.find(([header]) => header === "x-request-id")?.[1] ?? "";
        const attempt = (attempts.get(name) ?? 0) + 1;
        attempts.set(name, attempt);
        const isThird = attempt > 2;
        if (isThird) {
          thirds += 1;
          thirdsAtOnce += 1;
          thirdsAtOnceMost = Math.max(thirdsAtOnceMost, thirdsAtOnce);
        }
        await Bun.sleep(isThird ? thirdMs : random.below(answerMsMax));
        if (isThird) thirdsAtOnce -= 1;
        await (random.chance(0.5) ? refusal(status) : usual)(peer, request);
      };
    const key = at.gateway.key();
    const served: number[] = [];
    const context = async (): Promise<void> => {
      while (served.length + exchangesInFlight < requests) {
        exchangesInFlight += 1;
        const reply = await chat(at.gateway, key, { stream: random.chance(0.5) });
        exchangesInFlight -= 1;
        served.push(reply.status);
      }
    };
    await Promise.all(several(atOnce, context));
    // Up to the last ones there are always as many under way.
    expect(thirdsAtOnceMost).toBeLessThanOrEqual(Math.max(3, atOnce / 5));
    expect(thirds).toBeGreaterThanOrEqual(thirdsMin);
    expect(thirds).toBeLessThanOrEqual(requests / 5);
    expect(Math.max(...attempts.values())).toBeLessThanOrEqual(3);
    process.stdout.write(`${thirds} third attempts of ${requests} requests\n`);
    expect(served.filter((one) => one !== 200 && one !== 502)).toEqual([]);
  },
  60_000,
);

import { expect, test } from "bun:test";
import { setImmediate } from "node:timers/promises";
import { AdmissionTurns } from "../../../src/http/admissionTurns.ts";

test("so many requests go on in a turn of the event loop, in the order of their arrival", async () => {
  const turns = new AdmissionTurns(2);
  const gone: number[] = [];
  const arrive = async (request: number): Promise<void> => {
    const mayGoOn = turns.enter();
    if (mayGoOn) await mayGoOn;
    gone.push(request);
  };
  const all = [1, 2, 3, 4, 5].map(arrive);
  expect(gone).toEqual([1, 2]);
  await setImmediate();
  expect(gone).toEqual([1, 2, 3, 4]);
  // One that arrives later does not pass those that wait.
  all.push(arrive(6));
  await setImmediate();
  expect(gone).toEqual([1, 2, 3, 4, 5, 6]);
  await Promise.all(all);
  await setImmediate();
  void arrive(7);
  expect(gone.at(-1)).toBe(7);
});

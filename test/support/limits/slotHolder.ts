import { openReplica } from "./sharedLimiters.ts";

// A replica in a process of its own: takes slots of a key, prints a line, and holds them until it is killed.
const [url = "", keyId, slots, slotLifeMs] = process.argv.slice(2);
const replica = openReplica(url, {
  times: { slotLifeMs: Number(slotLifeMs), renewEveryMs: Number(slotLifeMs) / 5 },
});
await replica.isUsed();
for (let slot = 0; slot < Number(slots); slot += 1)
  await replica.admit(Number(keyId), { concurrentRequests: 1000 });
process.stdout.write("holds\n");

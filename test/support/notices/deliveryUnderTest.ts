import type { MailServer, NotifyConfig } from "../../../src/config/schema.ts";
import type { Clock } from "../../../src/lib/clock.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import { Delivery, type DeliveryEdges } from "../../../src/notices/delivery.ts";
import type { Notice } from "../../../src/notices/notice.ts";
import { operatorRecipients, type Recipient } from "../../../src/notices/recipients.ts";
import { createLog } from "../../../src/telemetry/log.ts";

export const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** Texts that no log line may have. */
const CANARY = /canary|whsec_|\/hook|@/;

/** A delivery whose pauses end at once. */
export interface DeliveryUnderTest {
  readonly delivery: Delivery;
  /** The pauses so far, in ms. */
  readonly pauses: readonly number[];
  /** Called at the begin of each pause, before it ends. */
  onPause: () => void;
  /** Sends and resolves when the notice is settled. */
  send(recipients: readonly Recipient[], notice?: Notice): Promise<boolean>;
  /** The log lines so far, without their times. Throws if one has a part of an address or a secret. */
  lines(): Record<string, unknown>[];
}

export function openDelivery(edges: Partial<DeliveryEdges> = {}): DeliveryUnderTest {
  const lines: string[] = [];
  const pauses: number[] = [];
  const log = createLog({ level: "info", format: "json" }, (text) =>
    lines.push(...text.trim().split("\n")),
  );
  // The wall clock jumps over each pause.
  let passedMs = 0;
  const clock: Clock = {
    epochMs: () => Date.now() + passedMs,
    monotonicMs: () => performance.now() + passedMs,
  };
  const pause: DeliveryEdges["pause"] = (afterMs, run) => {
    pauses.push(afterMs);
    passedMs += afterMs;
    opened.onPause();
    const timer = setImmediate(run);
    return () => clearImmediate(timer);
  };
  const delivery = new Delivery({ clock, random: systemRandom, log }, { pause, ...edges });
  const opened: DeliveryUnderTest = {
    delivery,
    pauses,
    onPause() {},
    send: (recipients, notice = accountLow()) =>
      new Promise((resolve) => delivery.send(notice, recipients, resolve)),
    lines() {
      log.flush();
      const leak = lines.find((line) => CANARY.test(line));
      if (leak !== undefined) throw new Error(`a log line says too much: ${leak}`);
      return lines.map((line) => {
        const { time: _, ...fields } = JSON.parse(line) as Record<string, unknown>;
        return fields;
      });
    },
  };
  return opened;
}

export function accountLow(subject = "alice"): Notice {
  return {
    type: "account_low",
    subject,
    atMs: Date.parse("2026-11-28T12:00:00Z"),
    text: `The account ${subject} has 49.5 roubles. Credit it, or its requests will be refused.`,
    data: { account: subject, balance_rub: "49.5", days: 2, empty_at: null },
  };
}

/** The settings of [notify] with these differences. */
export function notifyWith(changes: Partial<NotifyConfig>): NotifyConfig {
  return {
    webhook: undefined,
    secret,
    mail: undefined,
    emails: [],
    proxyUrl: undefined,
    ca: undefined,
    low: 0n,
    lowDays: 3,
    keyExpiresMs: 0,
    ...changes,
  };
}

/** The operator's webhooks at these addresses. */
export function webhooks(...urls: readonly string[]): readonly Recipient[] {
  return urls.flatMap((webhook) => operatorRecipients(notifyWith({ webhook })));
}

/** An operator's address at a mail server of this machine. */
export function mailTo(
  server: Pick<MailServer, "port"> & Partial<MailServer>,
  {
    to = "canary@example.com",
    ...changes
  }: { to?: string } & Partial<Pick<NotifyConfig, "ca" | "proxyUrl">> = {},
): readonly Recipient[] {
  const defaults = { host: "localhost", tls: "none", login: undefined } as const;
  const mail = { server: { ...defaults, ...server }, from: "canary-from@example.net" };
  return operatorRecipients(notifyWith({ mail, emails: [to], ...changes }));
}

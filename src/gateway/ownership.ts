import { commit } from "../billing/commit.ts";
import { resourceNotFound, responseNotFound } from "../contract/errors.ts";
import type { ResponsesRequest } from "../contract/responses.ts";
import { sha256 } from "../lib/sha256.ts";
import type { Candidate } from "../routing/order.ts";
import type { Gateway, Visit } from "./gateway.ts";

/** How long an account may name what a provider made for it. */
const OWNED_MS = 31 * 24 * 3_600_000;

/**
 * The candidates that may serve a request which names stored objects: only the provider that made
 * them. Throws ApiError 404 for any object that this account did not make and that is not shared;
 * the words are the same for a foreign one and for one that never was.
 */
export function pinToOwner(
  gateway: Gateway,
  visit: Visit,
  request: ResponsesRequest,
  candidates: readonly Candidate[],
): readonly Candidate[] {
  const { sharedObjects } = visit.setup.config.api;
  const owners = new Set<string>();
  const find = (objectId: string): string | undefined =>
    gateway.store.owners.findProvider(
      sha256(objectId),
      visit.caller.accountId,
      gateway.clock.epochMs(),
    );
  if (request.previousResponseId !== undefined) {
    const owner = find(request.previousResponseId);
    if (owner === undefined) throw responseNotFound();
    owners.add(owner);
  }
  for (const objectId of request.objectIds) {
    if (sharedObjects.includes(objectId)) continue;
    const owner = find(objectId);
    if (owner === undefined) throw resourceNotFound();
    owners.add(owner);
  }
  return candidates.filter(({ provider }) => [...owners].every((owner) => owner === provider.id));
}

/** Records ids that an answer names as the account's own; settles when that is committed. */
export type OwnObjects = (objectIds: readonly string[], provider: string) => Promise<void>;

export function ownerOf({ clock, writer }: Gateway, visit: Visit): OwnObjects {
  const { accountId } = visit.caller;
  return async (objectIds, provider) => {
    const expiresAt = clock.epochMs() + OWNED_MS;
    await Promise.all(
      objectIds.map((objectId) =>
        commit(writer, clock, {
          kind: "own",
          object: { hash: sha256(objectId), accountId, provider, expiresAt },
        }),
      ),
    );
  };
}

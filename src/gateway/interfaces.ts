import type { RouteConfig } from "../config/schema.ts";
import type { Endpoint } from "../contract/account/requestStatus.ts";
import type { Candidate } from "../routing/candidates.ts";

/**
 * How an endpoint is served over a route:
 * - `native`: the provider has the same interface. It gets the client's own text, except for the values that must differ.
 * - `translated`: the request is written in the provider's interface, and the answer in that of the endpoint.
 * - `refused`: the route cannot serve the endpoint.
 */
export type Service = "native" | "translated" | "refused";

/** What the config says of a route: the kind of its provider, and for the kind openai the keys of the route. */
export const routeKinds = [
  "openai",
  'openai, api = "responses"',
  "openai, responses = true",
  'openai, api = "responses", responses = true',
  "anthropic",
  "gemini",
] as const;
export type RouteKind = (typeof routeKinds)[number];

/** Every endpoint over every kind of route. docs/reference/calls.md shows them. */
export const services: Readonly<Record<RouteKind, Readonly<Record<Endpoint, Service>>>> = {
  openai: {
    chat: "native",
    responses: "translated",
    messages: "translated",
    embeddings: "native",
  },
  'openai, api = "responses"': {
    chat: "translated",
    responses: "translated",
    messages: "translated",
    embeddings: "refused",
  },
  "openai, responses = true": {
    chat: "native",
    responses: "native",
    messages: "translated",
    embeddings: "refused",
  },
  'openai, api = "responses", responses = true': {
    chat: "translated",
    responses: "native",
    messages: "translated",
    embeddings: "refused",
  },
  anthropic: {
    chat: "translated",
    responses: "translated",
    messages: "native",
    embeddings: "refused",
  },
  gemini: {
    chat: "translated",
    responses: "translated",
    messages: "translated",
    embeddings: "translated",
  },
};

/** How the endpoint is served over the candidate's route. */
export function serviceOf(endpoint: Endpoint, candidate: Candidate): Service {
  return services[routeKindOf(candidate)][endpoint];
}

function routeKindOf({ provider, route }: Candidate): RouteKind {
  const { kind } = provider.config;
  return kind === "openai" ? openaiRouteKind(route) : kind;
}

function openaiRouteKind({ api, responses }: RouteConfig): RouteKind {
  if (api === "chat") return responses ? "openai, responses = true" : "openai";
  return responses ? 'openai, api = "responses", responses = true' : 'openai, api = "responses"';
}

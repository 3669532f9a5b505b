import type { Endpoint } from "../../src/contract/account/requestStatus.ts";
import { type Extra, extraFields, extraTools, keyOf } from "../../src/contract/extras.ts";
import { routeKinds, services } from "../../src/gateway/interfaces.ts";
import { code, table } from "./markdown.ts";

const introduction = `[The HTTP API](http/index.md) describes the calls. [API reference](api.md) lists their fields.`;

const routesIntroduction = `What a call becomes over a route depends on the kind of its provider, and for the kind \`openai\` on two keys of the route. Native: the
provider has the same interface. Translated: the gateway writes the request in the provider's interface, and the answer in that of the call.
Refused: the config is not accepted.`;

const extrasIntroduction = `A request for one of these is a 400 unless \`[api] allowed_tools\` names it, or the model has the prices. With \`allowed_tools\` clients pay the
tokens only. Tools of a type that is not listed here are refused too, unless [they cost only tokens](http/requests.md#what-costs-more-than-tokens).`;

/** What the calls of clients become, and what they may not ask for. */
export function callsPage(): string {
  const endpoints = Object.keys(services.openai) as Endpoint[];
  return [
    "# Calls over routes",
    introduction,
    "## What a call becomes",
    routesIntroduction,
    table(
      ["route", ...endpoints],
      routeKinds.map((kind) =>
        [code(kind)].concat(endpoints.map((endpoint) => services[kind][endpoint])),
      ),
    ),
    "## What costs more than tokens",
    extrasIntroduction,
    "### Tools",
    extrasTable("tool", extraTools),
    "### Fields",
    extrasTable("field", extraFields),
  ].join("\n\n");
}

function extrasTable(what: string, extras: readonly Extra[]): string {
  const rows = extras.map(({ name, bills, soldBy = [] }) => [
    code(name),
    bills,
    soldBy.map((names) => names.map((one) => code(keyOf(one))).join(" and ")).join(", or ") ||
      "none",
  ]);
  return table([what, "the provider bills", "price of a model"], rows);
}

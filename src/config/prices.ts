import { costKeyOf, ofEachPrice, type Figure, type PriceName } from "../contract/figures.ts";
import { parseDecimal, type Decimal } from "../lib/decimal.ts";
import { joinKey } from "./inspection.ts";
import { entry, type Option, type Spec } from "./option.ts";

/** The highest price and the highest rate. */
export const BILLION = 1_000_000_000;

/**
 * The highest token limit of a model. At the highest prices, a hold of this many prompt tokens, eight such choices, as many
 * tokens of each of three kinds for tools, and a million of what is billed one by one is 2.2e18 nano-roubles, which fits into
 * a signed 64-bit integer.
 */
export const MODEL_TOKENS_MAX = 100_000_000;

/** The example and the documentation of the keys. */
const specs: Readonly<Record<PriceName, { readonly price: Spec; readonly cost: Spec }>> = {
  input: {
    price: { example: "25000", doc: "Required: 25 roubles per 1,000,000 prompt tokens." },
    cost: {
      example: "12000",
      doc: "What the provider charges you, for the margin in reports and for a warning of a price below it. It and the next key: set both or neither.",
    },
  },
  cachedInput: {
    price: {
      example: "2500",
      doc: "Prompt tokens read from the provider's cache. Default: the input price.",
    },
    cost: {
      example: "1200",
      doc: "The same for tokens read from its cache. Default: what input costs.",
    },
  },
  cacheWrite: {
    price: {
      example: "25000",
      doc: "Prompt tokens written to the provider's cache. Default: the input price.",
    },
    cost: {
      example: "12000",
      doc: "The same for tokens written to its cache. Default: what input costs.",
    },
  },
  cacheWrite1h: {
    price: {
      example: "50000",
      doc: "Prompt tokens that are kept in the provider's cache for an hour, where the provider is of kind anthropic. Without this price a request for an hour is refused. A model that costs nothing needs no price.",
    },
    cost: {
      example: "12000",
      doc: "The same for tokens that it keeps in its cache for an hour. Default: what a token written to its cache costs.",
    },
  },
  output: {
    price: { example: "200000", doc: "Required: 200 roubles per 1,000,000 completion tokens." },
    cost: { example: "96000", doc: "The same for completion tokens." },
  },
  audioInput: {
    price: {
      example: "100000",
      doc: "Audio tokens of a prompt. Without this price a prompt with audio or video is refused.",
    },
    cost: {
      example: "0",
      doc: "The same for audio tokens of a prompt. Default: what input costs.",
    },
  },
  cachedAudioInput: {
    price: {
      example: "10000",
      doc: "Audio tokens read from the provider's cache. Default: the price of audio.",
    },
    cost: { example: "0", doc: "The same for cached audio. Default: what audio costs." },
  },
  imageInput: {
    price: {
      example: "25000",
      doc: "Image tokens of a prompt that no cache has. Default: the input price.",
    },
    cost: {
      example: "0",
      doc: "The same for image tokens of a prompt. Default: what input costs.",
    },
  },
  audioOutput: {
    price: {
      example: "2000000",
      doc: "Audio tokens of an answer. Without this price a request for audio is refused.",
    },
    cost: { example: "0", doc: "The same for audio of an answer. Default: what output costs." },
  },
  imageOutput: {
    price: {
      example: "3000000",
      doc: "Image tokens of an answer, such as those of Gemini's image models. Without this price a request for images is refused, and images that a model makes unasked cost the output price.",
    },
    cost: { example: "0", doc: "The same for images of an answer. Default: what output costs." },
  },
  imageToolText: {
    price: {
      example: "500000",
      doc: "Text tokens that the tool `image_generation` reads. The tool is refused without this price and the next two. A client may choose the image model of the tool, so the three prices must cover the most expensive one.",
    },
    cost: { example: "0", doc: "The same for text that the image tool reads. Default: 0." },
  },
  imageToolInput: {
    price: { example: "1000000", doc: "Image tokens that the tool `image_generation` reads." },
    cost: { example: "0", doc: "The same for images that the image tool reads. Default: 0." },
  },
  imageToolOutput: {
    price: { example: "4000000", doc: "Tokens that the tool `image_generation` generates." },
    cost: { example: "0", doc: "The same for images that the image tool makes. Default: 0." },
  },
  webSearch: {
    price: {
      example: "900000",
      doc: "1,000 web searches that the provider runs and bills one by one: 900 roubles. Without this price /v1/messages refuses them, and over the responses interface of a provider they are not charged. Searches of Google are refused without it.",
    },
    cost: { example: "0", doc: "The same for 1,000 web searches. Default: 0." },
  },
  webSearchPreview: {
    price: {
      example: "2300000",
      doc: "1,000 searches of OpenAI's older tool `web_search_preview`. Default: the price of a web search.",
    },
    cost: { example: "0", doc: "The same for 1,000 of them. Default: what a web search costs." },
  },
  mapSearch: {
    price: {
      example: "1300000",
      doc: "1,000 answers for which Google searched its maps. Without this price the tool `google_maps` is refused.",
    },
    cost: { example: "0", doc: "The same for 1,000 of them. Default: 0." },
  },
  xPost: {
    price: {
      example: "500000",
      doc: "1,000 posts that xAI's tool `x_search` fetches. The tool is refused without this price and the next one.",
    },
    cost: { example: "0", doc: "The same for 1,000 posts. Default: 0." },
  },
  xProfile: {
    price: { example: "1000000", doc: "1,000 profiles that xAI's tool `x_search` fetches." },
    cost: { example: "0", doc: "The same for 1,000 profiles. Default: 0." },
  },
  fileSearch: {
    price: {
      example: "250000",
      doc: "1,000 searches in files that the provider stores. Without this price the tool `file_search` is refused.",
    },
    cost: { example: "0", doc: "The same for 1,000 of them. Default: 0." },
  },
  attachmentSearch: {
    price: {
      example: "1000000",
      doc: "1,000 searches of xAI in the files of a request. Default: the price of a file search.",
    },
    cost: { example: "0", doc: "The same for 1,000 of them. Default: what a file search costs." },
  },
  codeSession: {
    price: {
      example: "3000000",
      doc: "1,000 sessions of code: a container of 1 GB at OpenAI, a call at xAI, a run at Anthropic. Without this price the tools `code_interpreter`, `code_execution` and `shell` are refused.",
    },
    cost: { example: "0", doc: "The same for 1,000 sessions. Default: 0." },
  },
  image: {
    price: {
      example: "5000000",
      doc: "1,000 images that the provider bills one by one, as xAI does. It sells the tool `image_generation` too.",
    },
    cost: { example: "0", doc: "The same for 1,000 images. Default: 0." },
  },
};

/** A price as it stands in the file: thousandths of a rouble, or dollars. */
export type GivenAmount = { readonly rub: bigint } | { readonly usd: Decimal };

/** What a client pays. */
export const priceOptions = ofEachPrice((figure) => {
  const { name, key } = figure.price;
  return option(figure, key, specs[name].price);
});

/** What a provider charges the operator: each has the name of the price that must cover it. */
export const costOptions = ofEachPrice((figure) =>
  option(figure, costKeyOf(figure), specs[figure.price.name].cost),
);

/** "thousandths of a rouble per 1,000,000 tokens", with an example. */
export function unitText({ per, things, example }: Figure["unit"]): string {
  return `thousandths of a rouble per ${per} ${things} (${example})`;
}

/** The key of the same price in dollars. */
export function dollarKey(key: string): string {
  return key.replace("rub_", "usd_");
}

/** A price in roubles or in dollars. Undefined if neither is set. */
function option(figure: Figure, key: string, spec: Spec): Option<GivenAmount | undefined> {
  const { unit, ofEmbeddings } = figure;
  const only = ofEmbeddings ? {} : ({ only: "chat" } as const);
  const roubles = entry<bigint | undefined>(
    key,
    { ...spec, ...only },
    {
      form: `a whole number of ${unitText(unit)} from 0 to ${BILLION}`,
      accept: (value) =>
        typeof value === "bigint" && value >= 0n && value <= BILLION ? value : undefined,
      absent: undefined,
      range: `0 to ${BILLION}`,
    },
  );
  const dollars = decimal(dollarKey(key), {
    doc: "",
    what: `a number of dollars per ${unit.per} ${unit.things}, such as 1.25,`,
    max: 1_000_000,
  });
  return {
    ...roubles,
    keys: [...roubles.keys, ...dollars.keys],
    read(table, at, inspection) {
      const rub = roubles.read(table, at, inspection);
      const usd = dollars.read(table, at, inspection);
      if (rub !== undefined && usd !== undefined)
        inspection.problem(joinKey(at, dollarKey(key)), `is set beside ${key}: remove one of them`);
      if (rub !== undefined) return { rub };
      return usd && { usd };
    },
  };
}

/** A number from 0 that may have a fraction. It is read exactly. Undefined if it is not set. */
export function decimal(
  key: string,
  spec: Spec & { readonly what: string; readonly max: number; readonly required?: true },
): Option<Decimal | undefined> {
  const { what, max, required } = spec;
  return entry<Decimal | undefined>(key, spec, {
    form: `${what} from 0 to ${max}`,
    accept: (value) =>
      (typeof value === "number" || typeof value === "bigint") && value >= 0 && value <= max
        ? parseDecimal(String(value))
        : undefined,
    isRequired: required === true,
    absent: undefined,
    range: `0 to ${max}`,
  });
}

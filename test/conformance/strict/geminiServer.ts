import { geminiDialect } from "../../providers/conformance/geminiDialect.ts";
import {
  object,
  objects,
  Refused,
  unknownKeys,
  type Json,
  type StrictServer,
  word,
} from "./strictServer.ts";

/** https://ai.google.dev/gemini-api/docs/troubleshooting */
function geminiFault(message: string): Refused {
  return new Refused(400, { error: { code: 400, message, status: "INVALID_ARGUMENT" } });
}

const OUTPUT_TOKENS_MAX = 65_536;
/** https://ai.google.dev/api/generate-content: what each message of the interface has. */
const fields = {
  request:
    "contents systemInstruction tools toolConfig safetySettings generationConfig cachedContent serviceTier store".split(
      " ",
    ),
  part: "text thought thoughtSignature inlineData fileData functionCall functionResponse executableCode codeExecutionResult videoMetadata mediaResolution partMetadata".split(
    " ",
  ),
  tool: "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext googleMaps computerUse fileSearch mcpServers".split(
    " ",
  ),
  declaration:
    "name description parameters parametersJsonSchema response responseJsonSchema behavior".split(
      " ",
    ),
  generation:
    "stopSequences responseMimeType responseSchema responseJsonSchema responseModalities candidateCount maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs enableEnhancedCivicAnswers speechConfig thinkingConfig imageConfig mediaResolution responseFormat".split(
      " ",
    ),
  thinking: ["includeThoughts", "thinkingBudget", "thinkingLevel"],
  functionResponse: ["id", "name", "response", "parts", "willContinue", "scheduling"],
  functionCall: ["id", "name", "args"],
};
/** https://ai.google.dev/gemini-api/docs/image-understanding#supported-formats */
const pictureTypes = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];
/** https://ai.google.dev/api/caching#Schema: the words of `parameters`. */
const schemaWords =
  "type format title description nullable enum maxItems minItems properties required minProperties maxProperties minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum".split(
    " ",
  );

interface Gemini {
  readonly name: string;
  /** From version 3 on: calls need their signatures, and results may have pictures. */
  readonly isThird: boolean;
}

export const geminiServers: readonly StrictServer[] = [
  server({ name: "gemini-3-pro-preview", isThird: true }),
  server({ name: "gemini-2.5-flash", isThird: false }),
];

function server(gemini: Gemini): StrictServer {
  return {
    name: `Gemini, ${gemini.name}`,
    provider: { kind: "gemini" },
    route: { model: gemini.name, responses: false },
    settings: { max_output_tokens: OUTPUT_TOKENS_MAX },
    dialect: () => geminiDialect,
    check: ({ body }) => check(body, gemini),
    overflow: geminiFault(
      "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    callId: (number) => `call${number}`,
  };
}

function check(body: Json, gemini: Gemini): void {
  known(body, fields.request, "");
  const settings = object(body["generationConfig"]);
  known(settings, fields.generation, "generation_config");
  checkSettings(settings, body, gemini);
  const declared = objects(body["tools"]).flatMap((tool, at) => {
    known(tool, fields.tool, `tools[${at}]`);
    return objects(tool["functionDeclarations"]);
  });
  for (const [at, declaration] of declared.entries()) checkDeclaration(declaration, at);
  for (const part of objects(object(body["systemInstruction"])["parts"])) {
    if (typeof part["text"] !== "string")
      throw geminiFault("System instruction must have text parts only.");
  }
  checkContents(objects(body["contents"]), gemini);
}

function known(value: Json, names: readonly string[], path: string): void {
  const [unknown] = unknownKeys(value, names);
  if (unknown === undefined) return;
  const where = path === "" ? "" : ` at '${path}'`;
  throw geminiFault(
    `Invalid JSON payload received. Unknown name "${unknown}"${where}: Cannot find field.`,
  );
}

function checkSettings(settings: Json, body: Json, { isThird }: Gemini): void {
  const bound = settings["maxOutputTokens"];
  if (typeof bound === "number" && bound > OUTPUT_TOKENS_MAX) {
    throw geminiFault(
      `Unable to submit request because it has a maxOutputTokens value of ${bound} but the supported range is from 1 (inclusive) to ${OUTPUT_TOKENS_MAX + 1} (exclusive). Update the value and try again.`,
    );
  }
  const stops = (settings["stopSequences"] ?? []) as readonly string[];
  if (stops.length > 5)
    throw geminiFault("The number of stop sequences must be less than or equal to 5.");
  if (stops.includes(""))
    throw geminiFault(
      "GenerateContentRequest.generation_config.stop_sequences: must not contain empty strings.",
    );
  const thinking = object(settings["thinkingConfig"]);
  known(thinking, fields.thinking, "generation_config.thinking_config");
  const budget = thinking["thinkingBudget"];
  if (typeof budget === "number" && budget > 24_576) {
    throw geminiFault(
      `The thinking budget ${budget} is invalid. Please choose a value between 0 and 24576.`,
    );
  }
  if ("thinkingBudget" in thinking && "thinkingLevel" in thinking) {
    throw geminiFault("You can only set only one of thinking budget and thinking level.");
  }
  if ("thinkingLevel" in thinking && !isThird)
    throw geminiFault("Thinking level is not supported for this model.");
  const isJson = settings["responseMimeType"] === "application/json";
  if (isJson && !isThird && objects(body["tools"]).length > 0) {
    throw geminiFault(
      "Function calling with a response mime type: 'application/json' is unsupported",
    );
  }
}

function checkDeclaration(declaration: Json, at: number): void {
  const path = `tools[0].function_declarations[${at}]`;
  known(declaration, fields.declaration, path);
  if (!/^[a-zA-Z_][\w.:-]{0,63}$/.test(word(declaration["name"]))) {
    throw geminiFault(
      `* GenerateContentRequest.${path}.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.`,
    );
  }
  checkSchema(object(declaration["parameters"]), `${path}.parameters`);
}

function checkSchema(schema: Json, path: string): void {
  known(schema, schemaWords, path);
  for (const [at, one] of Object.values(object(schema["properties"])).entries()) {
    checkSchema(object(one), `${path}.properties[${at}].value`);
  }
  if ("items" in schema) checkSchema(object(schema["items"]), `${path}.items`);
}

function checkContents(contents: readonly Json[], gemini: Gemini): void {
  if (contents.length === 0)
    throw geminiFault("* GenerateContentRequest.contents: contents is not specified");
  let calls = 0;
  let before: string | undefined;
  for (const [at, content] of contents.entries()) {
    const role = word(content["role"]);
    if (role !== "user" && role !== "model")
      throw geminiFault("Please use a valid role: user, model.");
    const parts = objects(content["parts"]);
    if (parts.length === 0) {
      throw geminiFault(
        `* GenerateContentRequest.contents[${at}].parts: contents.parts must not be empty.`,
      );
    }
    for (const [index, part] of parts.entries())
      checkPart(part, `contents[${at}].parts[${index}]`, gemini);
    const called = parts.filter((part) => "functionCall" in part);
    const results = parts.filter((part) => "functionResponse" in part).length;
    if (called.length > 0 && before !== "user") {
      throw geminiFault(
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
      );
    }
    if (calls !== results) {
      throw geminiFault(
        calls === 0
          ? "Please ensure that function response turn comes immediately after a function call turn."
          : "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
      );
    }
    const [first] = called;
    if (gemini.isThird && first !== undefined && typeof first["thoughtSignature"] !== "string") {
      const name = word(object(first["functionCall"])["name"]);
      throw geminiFault(
        `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${name}\`, position ${at + 1}.`,
      );
    }
    calls = called.length;
    before = role;
  }
  if (calls > 0) {
    throw geminiFault(
      "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    );
  }
}

const kinds = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
];

function checkPart(part: Json, path: string, { isThird }: Gemini): void {
  known(part, fields.part, path);
  const data = kinds.filter((kind) => kind in part);
  if (data.length !== 1) {
    throw geminiFault(
      `* GenerateContentRequest.${path}.data: required oneof field 'data' must have one initialized field`,
    );
  }
  const inline = object(part["inlineData"]);
  const type = word(inline["mimeType"]);
  if ("inlineData" in part && type.startsWith("image/") && !pictureTypes.includes(type)) {
    throw geminiFault(`Unsupported MIME type: ${type}`);
  }
  const call = object(part["functionCall"]);
  known(call, fields.functionCall, `${path}.function_call`);
  const result = object(part["functionResponse"]);
  known(result, fields.functionResponse, `${path}.function_response`);
  if (!("functionResponse" in part)) return;
  if (typeof result["response"] !== "object" || Array.isArray(result["response"])) {
    throw geminiFault(
      `Invalid value at '${path}.function_response.response' (type.googleapis.com/google.protobuf.Struct)`,
    );
  }
  if (typeof result["name"] !== "string" || result["name"] === "") {
    throw geminiFault(
      `* GenerateContentRequest.${path}.function_response.name: Name cannot be empty.`,
    );
  }
  if (!isThird && "parts" in result) {
    throw geminiFault("Multimodal function responses are not supported for this model.");
  }
}

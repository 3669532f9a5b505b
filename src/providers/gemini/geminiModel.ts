/**
 * A model as Google names it: with `models/`, unless it is the name of a tuned model, as Google's own clients do.
 */
export function modelName(model: string): string {
  const { collection, name } = partsOf(model);
  return collection + name;
}

/**
 * The model as the path of a URL. The name is one escaped segment, so that it cannot lead to another method or host.
 */
export function modelPath(model: string): string {
  const { collection, name } = partsOf(model);
  return collection + encodeURIComponent(name);
}

function partsOf(model: string): { readonly collection: string; readonly name: string } {
  const [, collection = "models/", name = ""] =
    /^(models\/|tunedModels\/)?(.*)$/s.exec(model) ?? [];
  return { collection, name };
}

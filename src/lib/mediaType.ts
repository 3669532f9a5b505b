/** Media types under a name that is not registered, and their own: https://www.iana.org/assignments/media-types */
const REGISTERED: ReadonlyMap<string, string> = new Map([["image/jpg", "image/jpeg"]]);

/** The registered name of a media type, in lower case. */
export function registeredMediaType(type: string): string {
  const name = type.trim().toLowerCase();
  return REGISTERED.get(name) ?? name;
}

const DATA_URL_TYPE = /^data:[^;,]{1,100}/i;

/** A data: URL with the registered name of its media type. Any other URL is returned as it is. */
export function withRegisteredType(url: string): string {
  const [start] = DATA_URL_TYPE.exec(url) ?? [];
  if (start === undefined) return url;
  const name = start.slice("data:".length).trim().toLowerCase();
  const registered = REGISTERED.get(name);
  return registered === undefined ? url : `data:${registered}${url.slice(start.length)}`;
}

/** The part of a webhook's or a person's address that is no secret: the host, or the mail address. */
export function shownAddress(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return protocol === "mailto:" ? pathname : host;
}

/** Copies a text; false if the browser did not allow it. */
export async function copyText(text: string): Promise<boolean> {
  // Absent on plain http, unless the host is this machine.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard !== undefined) {
    try {
      await clipboard.writeText(text);
      return true;
    } catch {
      // The browser refused. The older way may still be allowed.
    }
  }
  return copySelection(text);
}

/** The older way: select the text in a field and copy the selection. */
function copySelection(text: string): boolean {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  field.readOnly = true;
  // A modal dialog makes all that is outside inert.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  }
}

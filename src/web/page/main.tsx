import { render } from "preact";
import { signal } from "@preact/signals";

const count = signal(0);
render(
  <button type="button" onClick={() => (count.value += 1)}>
    {count}
  </button>,
  document.body,
);

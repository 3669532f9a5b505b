import { render } from "preact";
import { Console } from "./console.tsx";
import { openSession } from "./session.ts";

render(<Console />, document.body);
void openSession();

import { CopyButton } from "./buttons.tsx";
import { ScrollArea } from "./table.tsx";

export interface CodeBlockProps {
  /** What the code is. Screen readers and the copy button say it. */
  readonly label: string;
  readonly code: string;
  /** What is copied, if it is not what is shown. */
  readonly copied?: string;
}

/** Code that is copied with one click. Long lines scroll. */
export function CodeBlock({ label, code, copied = code }: CodeBlockProps) {
  return (
    <div class="code-block">
      <ScrollArea label={label}>
        <pre>
          <code>{code}</code>
        </pre>
      </ScrollArea>
      <CopyButton text={copied} label={label} />
    </div>
  );
}

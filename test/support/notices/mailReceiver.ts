import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { testCertificate, type CertificateName } from "../provider/rawServer.ts";

/** A mail as the server got it. */
export interface ReceivedMail {
  readonly from: string | undefined;
  readonly to: readonly string[];
  readonly isSecure: boolean;
  readonly user: string | undefined;
  /** Unfolded header lines by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly headerCount: number;
  readonly body: string;
}

/** A mail server on real SMTP. */
export interface MailReceiver {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** `user password`, for each attempt to log in. */
  readonly logins: readonly string[];
  /** Connections so far. */
  readonly connections: number;
  /** Answers the next connections, recipients or mails with these codes. */
  readonly refusals: { greeting: number[]; recipient: number[]; mail: number[] };
  stop(): void;
}

export interface MailReceiverOptions {
  readonly certificate?: CertificateName;
  /** TLS from the first byte. */
  readonly isImplicit?: boolean;
  /** Users with their passwords. Without it no login is offered. */
  readonly users?: Readonly<Record<string, string>>;
  /** Does not offer STARTTLS. */
  readonly isPlain?: boolean;
}

export async function startMailReceiver(options: MailReceiverOptions = {}): Promise<MailReceiver> {
  const { certificate = "localhost", isImplicit = false, users, isPlain = false } = options;
  const mails: ReceivedMail[] = [];
  const logins: string[] = [];
  const refusals: MailReceiver["refusals"] = { greeting: [], recipient: [], mail: [] };
  let connections = 0;
  const handlers: SMTPServerOptions = {
    onConnect(_, done) {
      connections += 1;
      done(refusal(refusals.greeting));
    },
    onAuth({ username = "", password = "" }, _, done) {
      logins.push(`${username} ${password}`);
      if (users?.[username] === password) done(null, { user: username });
      else done(Object.assign(new Error("no"), { responseCode: 535 }));
    },
    onRcptTo(_, __, done) {
      done(refusal(refusals.recipient));
    },
    onData(stream, session, done) {
      const pieces: Buffer[] = [];
      stream.on("data", (piece: Buffer) => pieces.push(piece));
      stream.on("end", () => {
        const refused = refusal(refusals.mail);
        if (refused) return done(refused);
        const { mailFrom, rcptTo } = session.envelope;
        mails.push({
          from: mailFrom ? mailFrom.address : undefined,
          to: rcptTo.map(({ address }) => address),
          isSecure: session.secure,
          user: typeof session.user === "string" ? session.user : undefined,
          ...partsOf(Buffer.concat(pieces).toString()),
        });
        done(null);
      });
    },
  };
  const disabledCommands = [...(isPlain ? ["STARTTLS"] : []), ...(users ? [] : ["AUTH"])];
  const server = new SMTPServer({
    ...testCertificate(certificate),
    secure: isImplicit,
    disabledCommands,
    authOptional: true,
    allowInsecureAuth: true,
    // No question to a name server.
    disableReverseLookup: true,
    logger: false,
    ...handlers,
  });
  // Clients end connections as they like.
  server.on("error", () => undefined);
  const listening = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const address = server.server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    port: address.port,
    mails,
    logins,
    get connections() {
      return connections;
    },
    refusals,
    stop: () => server.close(),
  };
}

function refusal(codes: number[]): Error | null {
  const responseCode = codes.shift();
  return responseCode === undefined
    ? null
    : Object.assign(new Error("refused by the test"), { responseCode });
}

function partsOf(text: string): Pick<ReceivedMail, "headers" | "headerCount" | "body"> {
  const end = text.indexOf("\r\n\r\n");
  const lines = text
    .slice(0, end)
    .replaceAll(/\r\n[ \t]+/g, " ")
    .split("\r\n");
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return {
    headers: Object.fromEntries(headers),
    headerCount: headers.length,
    body: text.slice(end + 4),
  };
}

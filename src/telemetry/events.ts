/** What an event means. Texts are Markdown of one line. */
interface EventDescription {
  readonly level: "warn" | "error";
  /** The field `msg` of the log line. */
  readonly message: string;
  readonly meaning: string;
  /** What to do. */
  readonly advice: string;
}

/**
 * Every log line of level WARN and ERROR, by its stable name: the field `event`. Programs may rely on the names. They are
 * docs/troubleshoot/events.md, and `tollgate explain` prints one.
 */
export const events = {
  request_failed: {
    level: "error",
    message: "request",
    meaning:
      "The gateway could not serve a request because of its own fault. The client received an error. `error` names the cause: `StoreFull` (disk full), `StoreLocked` (database locked), or the class and code of an exception.",
    advice:
      "For `StoreFull` free disk space. For `StoreLocked` find the process that locks the database. For another class report it with the line.",
  },
  provider_refused: {
    level: "error",
    message:
      "the provider refuses the API key, the account or the country: run `tollgate check --live` to see why, fix it, then reload (SIGHUP) to use the provider again at once",
    meaning:
      "The provider answered 401 or 402, or named the account, or answered 403 without known words to two accounts or to the gateway itself. The gateway avoids the provider for 5 minutes and uses other routes.",
    advice: "Run `tollgate check --live`. Pay the provider, or replace its key, then reload.",
  },
  process_ended: {
    level: "error",
    message: "a serving process ended: it is started again",
    meaning:
      "One of the serving processes (`[server] processes`) ended by itself or was killed. `count` is its number, `problem` how it ended. The requests that it had open are lost. The other processes serve on, and the main process starts it again: at once, or after a pause of up to 5 s if it ended within a second of its start.",
    advice:
      "For `SIGKILL` look for the out-of-memory killer in `dmesg` or `journalctl -k`. For another reason report it with the lines before.",
  },
  process_ended_at_stop: {
    level: "warn",
    message: "a serving process did not end in order at the stop of the gateway",
    meaning:
      "The gateway stops, and one of its serving processes ended by a signal or with an error. With `SIGKILL` it hung for longer than `shutdown_grace` and 25 s, and the main process killed it, or something else did. `count` is its number, `problem` how it ended. The requests that it had open are lost. What they had reserved is free again.",
    advice: "Report it with the lines before, if nothing else has killed the process.",
  },
  process_interrupted: {
    level: "warn",
    message:
      "requests of a serving process that ended are interrupted: nothing is charged for them",
    meaning:
      "A serving process ended while it had requests open. `count` is how many of them had a row, `held_rub` what the process had reserved, which is free again.",
    advice: "See the line `process_ended` before.",
  },
  organization_refused: {
    level: "error",
    message:
      "the provider wants something of your organization, such as a verification: run `tollgate check --live` to see what",
    meaning:
      "The provider refused a request because the organization is not verified or is restricted. The gateway used the next route. Nothing is put in cooldown, because other requests may work.",
    advice:
      "Log in at the provider and do what it says. Remove the route of the model if you do not want to.",
  },
  provider_without_key: {
    level: "error",
    message:
      "the provider has no valid key: run `tollgate check --live` to see what its command or token server does",
    meaning:
      "The command of `api_key_command`, or the token server, gave no key (`problem`), and no earlier key is valid. The gateway uses other routes and tries again after `cooldown_ms`.",
    advice:
      "Run the command as the user of the gateway. What it writes as an error is in no log, because it may be a secret.",
  },
  provider_key_not_renewed: {
    level: "warn",
    message: "the key of the provider was not renewed: the earlier one is used while it is valid",
    meaning:
      "The command of `api_key_command`, or the token server, gave no key (`problem`). The gateway tries again after `cooldown_ms`.",
    advice: "Run the command as the user of the gateway, or look for a fault of the token server.",
  },
  model_quota_used_up: {
    level: "error",
    message: "the quota of this model at the provider is used up: raise it there, then wait",
    meaning:
      "The provider's quota of one model, such as its free one, is used up. The gateway avoids this route for 5 minutes. Other models of the provider are used.",
    advice: "Raise the quota or turn on paid use at the provider, or remove the route.",
  },
  route_answers_404: {
    level: "error",
    message: "the provider answers 404: check its base_url and the model name of the route",
    meaning: "`base_url` is wrong, or the provider does not know the model.",
    advice: "Correct `base_url` or the `model` of the route, run `tollgate check --live`, reload.",
  },
  usage_impossible: {
    level: "error",
    message: "the provider reported an impossible usage: the gateway does not charge these figures",
    meaning:
      "The token counts cannot be true. The gateway charges another report of the same answer, or an estimate.",
    advice:
      "Compare the request with the bill of the provider. Report it to the provider. Remove the route if it repeats.",
  },
  descriptors_exhausted: {
    level: "error",
    message:
      "no connection to the provider could be opened, because the gateway has no file descriptor left: raise the limit of open files",
    meaning:
      "The process has as many connections and files as it may have. The request failed, or went on to the next route. It does not count for the health of the provider.",
    advice:
      "Raise the limit of open files (`LimitNOFILE=` of the systemd unit, `--ulimit nofile=` of a container, `ulimit -n` of a shell) to at least three times the requests at once, and restart. Lower `concurrent_requests` of keys with many requests in flight.",
  },
  idle_connections_closed: {
    level: "warn",
    message:
      "idle connections of clients were closed, because one address had too many, or few file descriptors were left",
    meaning:
      "`count` connections without a request in flight were closed: of an address with more than `connections_per_address`, or of the addresses with the most connections, so that a quarter of the file descriptors stays free. At most one line a minute.",
    advice:
      "Nothing for a few lines. If it goes on, raise the limit of open files, and list proxies in front in `trusted_proxies`. A firewall stops an address that opens thousands of connections.",
  },
  request_without_end: {
    level: "error",
    message: "internal fault: a request did not end; its hold is released and nothing is charged",
    meaning: "A bug of the gateway left a request without an end.",
    advice: "Report it with the lines of the same `request_id`.",
  },
  database_unusable: {
    level: "error",
    message: "the database is not usable",
    meaning:
      "`/healthz` could not read the database, or the disk is full (`StoreFull`), or the database is locked (`StoreLocked`). The gateway answers 503 there.",
    advice:
      "Run `tollgate doctor`. Free disk space, end the process that locks the database, or restore a backup.",
  },
  wal_not_emptied: {
    level: "error",
    message:
      "the write-ahead log cannot be emptied: another program keeps a read transaction open, as `tollgate audit` does while it runs; end that program",
    meaning: "The write-ahead log is over 256 MB and grows.",
    advice: "Find the program with `fuser DATABASE` and end it. The log shrinks by itself.",
  },
  database_failed: {
    level: "error",
    message: "the database failed, the gateway stops",
    meaning:
      "An I/O error, a crash of the writer, or a database file that was removed or replaced while the gateway ran (`problem`). The gateway stops because it cannot record charges.",
    advice:
      "Check the disk (`dmesg`) and the database folder. Then start the gateway and run `tollgate audit`. Restore a backup if the file is damaged. With PostgreSQL `problem` says that a newer version upgraded the database (upgrade this one), that the URL leads to a pooler in transaction mode now (use the one that it names), or names a fault of the gateway (start it again, then run `tollgate audit`).",
  },
  config_rejected: {
    level: "error",
    message: "config rejected, the old config stays in force",
    meaning: "A reload found a problem in the config (`problem`), or could not read it (`error`).",
    advice:
      "Run `tollgate check`, correct the config, reload. If the problem is an unset `${NAME}`, restart.",
  },
  certificate_rejected: {
    level: "error",
    message: "certificate rejected, the old certificate stays in use",
    meaning: "The new TLS certificate or key is not usable.",
    advice: "Correct the files in `server.tls_cert` and `server.tls_key`, then reload.",
  },
  config_warning: {
    level: "warn",
    message: "config warning",
    meaning:
      "The config is valid, but something in it is suspicious, or a change needs a restart (`problem`).",
    advice: "Read `problem`. Correct the config, or restart.",
  },
  attempt_failed: {
    level: "warn",
    message: "attempt failed",
    meaning:
      "One attempt at a provider failed (`outcome`, `status`). The gateway tries another route if there is one.",
    advice:
      "Nothing for a single line. For many look at the status page of the provider and run `tollgate check --live`.",
  },
  usage_decreased: {
    level: "warn",
    message: "the provider reported less usage than earlier in the same answer",
    meaning: "Two reports of one answer disagree. The gateway charges the larger figures.",
    advice: "Compare some requests with the bill of the provider.",
  },
  usage_above_maximum: {
    level: "warn",
    message: "the provider reported more tokens than the model can produce",
    meaning:
      "The reported completion is larger than `max_output_tokens` of the model. The gateway charges it as reported.",
    advice: "Correct `max_output_tokens` if it is too small. Otherwise ask the provider.",
  },
  usage_total_larger: {
    level: "warn",
    message:
      "the provider reported a total that is larger than the tokens of prompt and completion",
    meaning:
      "The rest of the total may be reasoning that the provider bills and does not list. The gateway charges prompt and completion as reported.",
    advice:
      "Compare some requests with the bill of the provider. If it bills the rest, ask it to report `reasoning_tokens`, or raise the price.",
  },
  service_expensive: {
    level: "warn",
    message: "the provider served something that costs more than the configured price is for",
    meaning:
      "An answer of the route (`provider`, `model`) names a service with a price of its own (`problem`): `service_tier priority`, `speed fast` or `inference_geo us`. Or it has searches of the web (`web_search`), audio, images or a use of a tool, such as `image_output_tokens`, and the model has no price for them. Clients pay the tokens at the usual price. One line an hour for each route and service.",
    advice:
      "Look for the setting in the provider's project. Turn it off, or raise the price. For `web_search` set `rub_web_search_per_1k`, or name it in `[api] refused_tools`, or in `allowed_tools` to give it away. For another figure set its price.",
  },
  trace_collector_unusable: {
    level: "warn",
    message: "the trace collector does not accept spans: some may be lost",
    meaning:
      "No connection or timeout (`error`), an HTTP status (`status`), or too many spans wait (`problem`). Requests are not affected. One line for each outage; an info line with the number of lost spans (`count`) ends it.",
    advice:
      "Check `telemetry.otlp` and the collector. Status 401 or 403: check `telemetry.headers`. Status 404: the address must not include `/v1/traces`.",
  },
  limits_server_unusable: {
    level: "warn",
    message: "the limits server cannot be used: this replica allows its share of each limit",
    meaning:
      "Valkey or Redis is gone, slower than 10 ms, or refuses the gateway (`problem`). One line for each outage, and one more if it refuses. An info line ends it, with the number of requests meanwhile (`count`).",
    advice:
      "Run `tollgate doctor`. The gateway tries again by itself four times a second. A new URL or password needs a restart.",
  },
  key_use_not_recorded: {
    level: "warn",
    message: "the last use of a key was not recorded",
    meaning: "`last_used_at` and `last_address` of a key stay old. Nothing else is affected.",
    advice: "Look for database errors in other lines.",
  },
  previous_run_interrupted: {
    level: "warn",
    message:
      "the previous run left open requests: they are interrupted, their holds are released and nothing is charged",
    meaning:
      "The last run ended by a crash, `kill -9` or a power cut. `count` requests were open for more than a second. `held_rub` is what was still reserved: a command that ran after the crash may have released it.",
    advice: "Find the reason of the crash. The data needs no repair.",
  },
  replica_fenced: {
    level: "error",
    message:
      "this replica was fenced, because it sent no heartbeat for 15 s: open requests here fail, and nothing is charged",
    meaning:
      "The replica could not reach the PostgreSQL server for 15 s, or stood still for that long. Others have released what it had reserved. It joins again by itself.",
    advice: "Look at the network to the server, and at the load of this machine.",
  },
  other_replica_fenced: {
    level: "warn",
    message:
      "another replica sent no heartbeat for 15 s: its open requests are interrupted, what it had reserved is released, and nothing is charged",
    meaning:
      "Another replica (`replica_id`) was killed, stood still or was cut off for 15 s. `count` requests were open for more than a second. `held_rub` is what was released.",
    advice: "Find out why the other replica was silent.",
  },
  database_server_silent: {
    level: "warn",
    message: "asking the database server failed: trying again",
    meaning:
      "A heartbeat, or reading the counter of changes, failed (`error`). One line is normal while the server restarts. Without an answer for 10 s the replica refuses requests.",
    advice: "For many lines look at the server and the network.",
  },
  database_url_unusable: {
    level: "error",
    message: "the file with the URL of the database cannot be used, so no new connection is made",
    meaning:
      "`[database] url_file` is read again for each new connection. `problem` names the file: it cannot be read, has no usable URL, or names another server or database than at the start, whose records may be others. Open connections stay. The file is read again with each try; at most one line in 10 s.",
    advice:
      "Correct the file. Only user and password may change while the gateway runs; another server, database or parameter needs a restart.",
  },
  account_locked: {
    level: "warn",
    message:
      "another session has locked rows of an account: its requests wait, and fail after 10 s",
    meaning:
      "A transaction on the PostgreSQL server has had rows of the account (`account`) for 2 s. `problem` names the sessions that may have them: pid, application, user and since when. Answers of the account that have ended wait for up to 40 s for their charge. Other accounts are served as ever.",
    advice:
      "End the transaction of that session, or the session: `SELECT pg_terminate_backend(PID)`.",
  },
  clock_differs: {
    level: "warn",
    message: "the clock of this machine differs from that of the database server by more than 2 s",
    meaning:
      "A heartbeat has compared the clocks (`problem`). Leases and money do not depend on it. A key expires, a request counts for a day and limits begin anew by the clock of the replica, so replicas disagree about them. Told when it begins, and once a day while it holds. The metric `tollgate_database_clock_skew_seconds` has the figure.",
    advice:
      "Run `tollgate doctor` on this machine. Use a time service here and on the server (`timedatectl set-ntp true`).",
  },
  unrequested_data: {
    level: "warn",
    message:
      "the provider sent data that no request asked for: its connections are not reused for a while",
    meaning:
      "Bytes arrived on an idle connection. The gateway opens a new connection for each request for `cooldown_ms`.",
    advice: "Report it to the provider, or check the proxy between.",
  },
  wal_kept: {
    level: "warn",
    message:
      "the write-ahead log (-wal file) still holds committed data: copy or move it together with the database file",
    meaning: "Another process had the database open at the stop. Nothing is lost.",
    advice:
      "Move or copy the database only together with its `-wal` file, or use `tollgate backup`.",
  },
  clock_behind: {
    level: "warn",
    message: "the clock is behind the last entry of the database: nothing is folded meanwhile",
    meaning:
      "The last request, credit, debit or refund is more than a minute in the future. The clock is wrong, or was wrong when that was written. Days, budgets and the expiry of keys follow the clock. Old requests are kept until the clock agrees with the last entry. Told at the start, and once a day while it holds.",
    advice:
      "Run `tollgate doctor`. Correct the clock, and use a time service (`timedatectl set-ntp true`). If the clock is right, the next request ends this.",
  },
  clock_ahead: {
    level: "warn",
    message: "the clock is far ahead of the earlier entries of the database",
    meaning:
      "No request was made for more than 30 days, or the clock is wrong. Days, budgets and the expiry of keys follow the clock. So that a wrong clock does not make all requests old, none is folded in the week after the first request that follows such a pause. Told at the start, and once a day in that week.",
    advice:
      "Run `tollgate doctor`. Correct the clock, and use a time service (`timedatectl set-ntp true`). If the clock is right, nothing is to do.",
  },
  notice_not_delivered: {
    level: "warn",
    message: "a notice was not delivered",
    meaning:
      "`count` of `total` recipients were given up. `address` is the host of the first one, `outcome` and `status` its last failure, `error` a fault of the gateway. `problem`: the queue was full, the notice waited for too long, or the gateway stopped; at a stop `count` notices are lost.",
    advice:
      "Run `tollgate check --live`, which sends a test notice. What still holds is told again after an hour.",
  },
  account_address_unusable: {
    level: "warn",
    message: "an account has an address for notices that cannot be used",
    meaning:
      "An account that has something to be told has a webhook, and `[notify]` has no `secret`; or it has a mail address, and there is no `smtp`. One line for each config.",
    advice:
      "Set `[notify]` `secret`, or `smtp` and `from`, and reload. Or remove the address: `tollgate accounts set NAME --notify none`.",
  },
  upgrade_blocked: {
    level: "warn",
    message: "the upgrade of the database waits for a lock of another session: trying again",
    meaning:
      "The start upgrades the PostgreSQL database, and others use the tables that it changes, such as `pg_dump` or an open transaction: `problem` names their pid, application and user, and since when. Each try ends within two seconds, so replicas of the version before go on. Told at first, when others are in the way, and once a minute (`duration_ms`).",
    advice:
      "Wait, or end that session: `SELECT pg_terminate_backend(PID)`. SIGTERM ends the start, and the database stays as it was. Run `tollgate migrate-schema` before a rollout, when nothing reads for long.",
  },
  upgrade_without_backup: {
    level: "warn",
    message: "no backup is made before the upgrade: the disk has not enough room",
    meaning:
      "The start upgrades a database of an earlier version, and its disk has not enough room for a backup (`free_bytes` of `needed_bytes`). The upgrade goes on.",
    advice:
      "Watch the end of the upgrade. To go back you need a backup of your own. Next time run `tollgate doctor` before the restart, and free disk space.",
  },
} as const satisfies Readonly<Record<string, EventDescription>>;

export type EventName = keyof typeof events;

/** The events whose lines have this level. */
export type EventOf<Level extends EventDescription["level"]> = {
  [Name in EventName]: (typeof events)[Name]["level"] extends Level ? Name : never;
}[EventName];

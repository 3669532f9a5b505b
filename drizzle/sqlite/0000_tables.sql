CREATE TABLE `accounts` (
	`id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`balance` integer DEFAULT 0 NOT NULL,
	`overdraft` integer DEFAULT 0 NOT NULL,
	`ledger_seq` integer DEFAULT 0 NOT NULL,
	`disabled` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	CONSTRAINT "accounts_promise" CHECK("accounts"."balance" + "accounts"."overdraft" >= 0),
	CONSTRAINT "accounts_overdraft" CHECK("accounts"."overdraft" >= 0)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_name_unique` ON `accounts` (`name`);--> statement-breakpoint
CREATE TABLE `admin_log` (
	`id` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`actor` text NOT NULL,
	`command` text NOT NULL,
	`subject` text NOT NULL,
	`detail` text
) STRICT;
--> statement-breakpoint
CREATE TABLE `attempts` (
	`request_id` integer NOT NULL,
	`n` integer NOT NULL,
	`provider` text NOT NULL,
	`outcome` text NOT NULL,
	`status` integer,
	`duration_ms` integer NOT NULL,
	PRIMARY KEY(`request_id`, `n`),
	FOREIGN KEY (`request_id`) REFERENCES `requests`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `keys` (
	`id` integer PRIMARY KEY NOT NULL,
	`public_id` text NOT NULL,
	`account_id` integer NOT NULL,
	`hash` blob NOT NULL,
	`prefix` text NOT NULL,
	`label` text,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`last_used_at` integer,
	`requests_per_minute` integer,
	`tokens_per_minute` integer,
	`concurrent_requests` integer,
	`models` text,
	`budget` integer,
	`spent` integer DEFAULT 0 NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "keys_spent" CHECK("keys"."spent" >= 0)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `keys_public_id_unique` ON `keys` (`public_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `keys_hash_unique` ON `keys` (`hash`);--> statement-breakpoint
CREATE INDEX `keys_account` ON `keys` (`account_id`);--> statement-breakpoint
CREATE TABLE `ledger` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`seq` integer NOT NULL,
	`kind` text NOT NULL,
	`amount` integer NOT NULL,
	`balance_after` integer NOT NULL,
	`ref` text,
	`actor` text,
	`note` text,
	`at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "ledger_kind" CHECK("ledger"."kind" IN ('credit', 'debit', 'charge', 'refund')),
	CONSTRAINT "ledger_sign" CHECK(CASE WHEN "ledger"."kind" IN ('debit', 'charge') THEN "ledger"."amount" <= 0 ELSE "ledger"."amount" > 0 END),
	CONSTRAINT "ledger_charge_ref" CHECK(("ledger"."kind" = 'charge') = (coalesce("ledger"."ref", '') GLOB 'req:*'))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_ref_unique` ON `ledger` (`ref`);--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_account_seq` ON `ledger` (`account_id`,`seq`);--> statement-breakpoint
CREATE TABLE `requests` (
	`id` integer PRIMARY KEY NOT NULL,
	`public_id` text NOT NULL,
	`at` integer NOT NULL,
	`account_id` integer NOT NULL,
	`key_id` integer NOT NULL,
	`endpoint` text NOT NULL,
	`model` text NOT NULL,
	`provider` text,
	`stream` integer NOT NULL,
	`status` text NOT NULL,
	`price_input` integer NOT NULL,
	`price_cached_input` integer NOT NULL,
	`price_cache_write` integer NOT NULL,
	`price_output` integer NOT NULL,
	`hold` integer NOT NULL,
	`charge` integer DEFAULT 0 NOT NULL,
	`write_off` integer DEFAULT 0 NOT NULL,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`estimated` integer DEFAULT 0 NOT NULL,
	`operator_cost` integer,
	`attempt_count` integer DEFAULT 0 NOT NULL,
	`duration_ms` integer,
	`first_byte_ms` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "requests_status" CHECK("requests"."status" IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
	CONSTRAINT "requests_amounts" CHECK("requests"."hold" >= 0 AND "requests"."charge" >= 0 AND "requests"."write_off" >= 0 AND "requests"."prompt_tokens" >= 0 AND "requests"."cached_tokens" >= 0 AND "requests"."cache_write_tokens" >= 0 AND "requests"."completion_tokens" >= 0 AND "requests"."cached_tokens" + "requests"."cache_write_tokens" <= "requests"."prompt_tokens"),
	CONSTRAINT "requests_price" CHECK("requests"."charge" + "requests"."write_off" = ("requests"."prompt_tokens" - "requests"."cached_tokens" - "requests"."cache_write_tokens") * "requests"."price_input" + "requests"."cached_tokens" * "requests"."price_cached_input" + "requests"."cache_write_tokens" * "requests"."price_cache_write" + "requests"."completion_tokens" * "requests"."price_output"),
	CONSTRAINT "requests_unbilled" CHECK("requests"."status" IN ('done', 'cancelled') OR "requests"."charge" + "requests"."write_off" = 0)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `requests_public_id_unique` ON `requests` (`public_id`);--> statement-breakpoint
CREATE INDEX `requests_at` ON `requests` (`at`);--> statement-breakpoint
CREATE INDEX `requests_account` ON `requests` (`account_id`);--> statement-breakpoint
CREATE INDEX `requests_running` ON `requests` (`account_id`) WHERE status = 'running';--> statement-breakpoint
CREATE TABLE `response_owner` (
	`hash` blob PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`provider` text NOT NULL,
	`expires_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `response_owner_expiry` ON `response_owner` (`expires_at`);
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
	`spent` integer DEFAULT 0 NOT NULL, `first_key_id` integer REFERENCES keys(id),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "keys_spent" CHECK("keys"."spent" >= 0)
) STRICT;
--> statement-breakpoint
CREATE TABLE `response_owner` (
	`hash` blob PRIMARY KEY NOT NULL,
	`account_id` integer NOT NULL,
	`provider` text NOT NULL,
	`expires_at` integer NOT NULL, `history_tokens` integer DEFAULT 0 NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `daily_totals` (
	`day` integer NOT NULL,
	`account_id` integer NOT NULL,
	`key_id` integer NOT NULL,
	`model` text NOT NULL,
	`provider` text NOT NULL,
	`endpoint` text NOT NULL,
	`requests` integer NOT NULL,
	`failed` integer NOT NULL,
	`charged` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`cache_write_tokens` integer NOT NULL,
	`completion_tokens` integer NOT NULL,
	`charge` integer NOT NULL,
	`refunded` integer DEFAULT 0 NOT NULL,
	`write_off` integer NOT NULL,
	`operator_cost` integer NOT NULL, `cache_write_1h_tokens` integer DEFAULT 0 NOT NULL, `web_searches` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`day`, `account_id`, `key_id`, `model`, `provider`, `endpoint`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `retention` (
	`id` integer PRIMARY KEY NOT NULL,
	`kept_since` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `changes` (
	`id` integer PRIMARY KEY NOT NULL,
	`seq` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE "ledger" (
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
	`refund_of` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "ledger_kind" CHECK("ledger"."kind" IN ('credit', 'debit', 'charge', 'refund')),
	CONSTRAINT "ledger_sign" CHECK(CASE WHEN "ledger"."kind" IN ('debit', 'charge') THEN "ledger"."amount" <= 0 ELSE "ledger"."amount" > 0 END),
	CONSTRAINT "ledger_charge_ref" CHECK(("ledger"."kind" = 'charge') = (coalesce("ledger"."ref", '') GLOB 'req:*'))
) STRICT;
--> statement-breakpoint
CREATE TABLE "accounts" (
	`id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`balance` integer DEFAULT 0 NOT NULL,
	`overdraft` integer DEFAULT 0 NOT NULL,
	`ledger_seq` integer DEFAULT 0 NOT NULL,
	`reserved` integer DEFAULT 0 NOT NULL,
	`disabled` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL, `low` integer, `notify_url` text,
	CONSTRAINT "accounts_promise" CHECK("accounts"."balance" + "accounts"."overdraft" >= 0),
	CONSTRAINT "accounts_overdraft" CHECK("accounts"."overdraft" >= 0),
	CONSTRAINT "accounts_reserve" CHECK("accounts"."reserved" BETWEEN 0 AND "accounts"."balance" + "accounts"."overdraft")
) STRICT;
--> statement-breakpoint
CREATE TABLE "requests" (
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
	`price_cache_write_1h` integer NOT NULL,
	`price_output` integer NOT NULL,
	`price_web_search` integer NOT NULL,
	`hold` integer NOT NULL,
	`charge` integer DEFAULT 0 NOT NULL,
	`write_off` integer DEFAULT 0 NOT NULL,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_tokens` integer DEFAULT 0 NOT NULL,
	`cache_write_1h_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`web_searches` integer DEFAULT 0 NOT NULL,
	`estimated` integer DEFAULT 0 NOT NULL,
	`operator_cost` integer,
	`attempt_count` integer DEFAULT 0 NOT NULL,
	`duration_ms` integer,
	`first_byte_ms` integer,
	`ledger_seq` integer,
	`balance_after` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "requests_status" CHECK("requests"."status" IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
	CONSTRAINT "requests_amounts" CHECK("requests"."hold" >= 0 AND "requests"."charge" >= 0 AND "requests"."write_off" >= 0 AND "requests"."prompt_tokens" >= 0 AND "requests"."cached_tokens" >= 0 AND "requests"."cache_write_tokens" >= 0 AND "requests"."completion_tokens" >= 0 AND "requests"."web_searches" >= 0 AND "requests"."cached_tokens" + "requests"."cache_write_tokens" <= "requests"."prompt_tokens" AND "requests"."cache_write_1h_tokens" BETWEEN 0 AND "requests"."cache_write_tokens"),
	CONSTRAINT "requests_price" CHECK("requests"."charge" + "requests"."write_off" = ("requests"."prompt_tokens" - "requests"."cached_tokens" - "requests"."cache_write_tokens") * "requests"."price_input" + "requests"."cached_tokens" * "requests"."price_cached_input" + ("requests"."cache_write_tokens" - "requests"."cache_write_1h_tokens") * "requests"."price_cache_write" + "requests"."cache_write_1h_tokens" * "requests"."price_cache_write_1h" + "requests"."completion_tokens" * "requests"."price_output" + "requests"."web_searches" * "requests"."price_web_search"),
	CONSTRAINT "requests_unbilled" CHECK("requests"."status" IN ('done', 'cancelled') OR "requests"."charge" + "requests"."write_off" = 0),
	CONSTRAINT "requests_charge" CHECK(("requests"."ledger_seq" IS NOT NULL) = ("requests"."status" = 'done' OR "requests"."charge" > 0) AND ("requests"."balance_after" IS NULL) = ("requests"."ledger_seq" IS NULL))
) STRICT;
--> statement-breakpoint
CREATE TABLE `voucher_start` (
	`id` integer PRIMARY KEY NOT NULL,
	`ledger_id` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `vouchers` (
	`id` integer PRIMARY KEY NOT NULL,
	`public_id` text NOT NULL,
	`hash` blob NOT NULL,
	`prefix` text NOT NULL,
	`amount` integer NOT NULL,
	`note` text,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`redeemed_at` integer,
	`redeemed_by` integer,
	FOREIGN KEY (`redeemed_by`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "vouchers_amount" CHECK("vouchers"."amount" > 0),
	CONSTRAINT "vouchers_end" CHECK(("vouchers"."redeemed_at" IS NULL) = ("vouchers"."redeemed_by" IS NULL) AND ("vouchers"."redeemed_at" IS NULL OR "vouchers"."revoked_at" IS NULL))
) STRICT;
--> statement-breakpoint
CREATE TABLE `notices` (
	`type` text NOT NULL,
	`subject` text NOT NULL,
	`open` integer NOT NULL,
	`told` integer NOT NULL,
	`claimed_at` integer NOT NULL,
	PRIMARY KEY(`type`, `subject`)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `keys_public_id_unique` ON `keys` (`public_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `keys_hash_unique` ON `keys` (`hash`);
--> statement-breakpoint
CREATE INDEX `keys_account` ON `keys` (`account_id`);
--> statement-breakpoint
CREATE INDEX `response_owner_expiry` ON `response_owner` (`expires_at`);
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_ref_unique` ON `ledger` (`ref`);
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_account_seq` ON `ledger` (`account_id`,`seq`);
--> statement-breakpoint
CREATE INDEX `ledger_refunds` ON `ledger` (`account_id`,`refund_of`) WHERE refund_of IS NOT NULL;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_name_unique` ON `accounts` (`name`);
--> statement-breakpoint
CREATE UNIQUE INDEX `requests_public_id_unique` ON `requests` (`public_id`);
--> statement-breakpoint
CREATE INDEX `requests_at` ON `requests` (`at`);
--> statement-breakpoint
CREATE UNIQUE INDEX `requests_account_seq` ON `requests` (`account_id`,`ledger_seq`) WHERE ledger_seq IS NOT NULL;
--> statement-breakpoint
CREATE INDEX `requests_not_done` ON `requests` (`status`,`account_id`) WHERE status <> 'done';
--> statement-breakpoint
CREATE UNIQUE INDEX `vouchers_public_id_unique` ON `vouchers` (`public_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `vouchers_hash_unique` ON `vouchers` (`hash`);
--> statement-breakpoint
-- All changes of an account's balance: the rows of the ledger and the charges of the requests that are kept.
-- With the casts both parts have the same types. Only then SQLite uses the indexes of both for the view's rows in order.
CREATE VIEW `history` AS
SELECT `account_id`, `seq`, `kind`, `amount`, `balance_after`, `ref`, `actor`, `note`, `at`, `refund_of` FROM `ledger`
UNION ALL
SELECT `account_id`, `ledger_seq`, CAST('charge' AS TEXT), CAST(-`charge` AS INTEGER), `balance_after`,
	CAST('req:' || `public_id` AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT),
	CAST(`at` + coalesce(`duration_ms`, 0) AS INTEGER), CAST(NULL AS INTEGER)
FROM `requests` WHERE `ledger_seq` IS NOT NULL;
--> statement-breakpoint
INSERT INTO `retention` (`id`, `kept_since`) VALUES (1, 0);
--> statement-breakpoint
INSERT INTO `changes` (`id`, `seq`) VALUES (1, 0);
--> statement-breakpoint
INSERT INTO `voucher_start` (`id`, `ledger_id`) VALUES (1, 0);
--> statement-breakpoint
CREATE TRIGGER `admin_log_keeps` BEFORE UPDATE ON `admin_log`
BEGIN
	SELECT RAISE(ABORT, 'admin_log: rows are never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `admin_log_keeps_all` BEFORE DELETE ON `admin_log`
BEGIN
	SELECT RAISE(ABORT, 'admin_log: rows are never removed');
END;
--> statement-breakpoint
-- A connection of another program may have recursive_triggers off: its INSERT OR REPLACE removes rows without asking the
-- triggers that forbid it. So each table refuses a row that is there.
CREATE TRIGGER `admin_log_appends` BEFORE INSERT ON `admin_log`
WHEN EXISTS (SELECT 1 FROM `admin_log` WHERE `id` = NEW.`id`)
BEGIN
	SELECT RAISE(ABORT, 'admin_log: that id is there already');
END;
--> statement-breakpoint
CREATE TRIGGER `daily_totals_keep` BEFORE DELETE ON `daily_totals`
BEGIN
	SELECT RAISE(ABORT, 'daily_totals: totals are never removed');
END;
--> statement-breakpoint
CREATE TRIGGER `retention_grows` BEFORE UPDATE ON `retention`
WHEN NEW.`kept_since` < OLD.`kept_since` OR NEW.`id` <> OLD.`id`
BEGIN
	SELECT RAISE(ABORT, 'retention: what was folded is not kept again');
END;
--> statement-breakpoint
CREATE TRIGGER `retention_is_one` BEFORE INSERT ON `retention`
BEGIN
	SELECT RAISE(ABORT, 'retention: there is one row');
END;
--> statement-breakpoint
CREATE TRIGGER `retention_stays` BEFORE DELETE ON `retention`
BEGIN
	SELECT RAISE(ABORT, 'retention: there is one row');
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_moves_balance` AFTER INSERT ON `ledger`
WHEN NEW.`kind` <> 'charge'
BEGIN
	UPDATE `accounts` SET `balance` = NEW.`balance_after`, `ledger_seq` = NEW.`seq`
	WHERE `id` = NEW.`account_id`;
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_keeps` BEFORE UPDATE ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: rows are never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_keeps_all` BEFORE DELETE ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: rows are never removed');
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_start_empty` BEFORE INSERT ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: a new account has an empty ledger')
	WHERE NEW.`balance` <> 0 OR NEW.`ledger_seq` <> 0 OR NEW.`reserved` <> 0;
	SELECT RAISE(ABORT, 'accounts: that name or id is there already')
	WHERE EXISTS (SELECT 1 FROM `accounts` WHERE `name` = NEW.`name` OR `id` = NEW.`id`);
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_stay_themselves` BEFORE UPDATE OF `id`, `name` ON `accounts`
WHEN NEW.`id` <> OLD.`id` OR NEW.`name` <> OLD.`name`
BEGIN
	SELECT RAISE(ABORT, 'accounts: an account keeps its name and id');
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_keep` BEFORE DELETE ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: accounts are never removed');
END;
--> statement-breakpoint
-- Changes that the serving gateway has not made itself count at its next request.
CREATE TRIGGER `accounts_added` AFTER INSERT ON `accounts`
BEGIN
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_changed` AFTER UPDATE OF `overdraft`, `disabled` ON `accounts`
BEGIN
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
--> statement-breakpoint
CREATE TRIGGER `keys_added` AFTER INSERT ON `keys`
BEGIN
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
--> statement-breakpoint
CREATE TRIGGER `keys_changed` AFTER UPDATE OF `id`, `public_id`, `account_id`, `hash`, `expires_at`, `revoked_at`,
	`requests_per_minute`, `tokens_per_minute`, `concurrent_requests`, `models`, `budget`, `first_key_id` ON `keys`
BEGIN
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
--> statement-breakpoint
CREATE TRIGGER `keys_removed` AFTER DELETE ON `keys`
BEGIN
	UPDATE `changes` SET `seq` = `seq` + 1;
END;
--> statement-breakpoint
CREATE TRIGGER `changes_grow` BEFORE UPDATE ON `changes`
WHEN NEW.`seq` <= OLD.`seq` OR NEW.`id` <> OLD.`id`
BEGIN
	SELECT RAISE(ABORT, 'changes: the number only grows');
END;
--> statement-breakpoint
CREATE TRIGGER `changes_is_one` BEFORE INSERT ON `changes`
BEGIN
	SELECT RAISE(ABORT, 'changes: there is one row');
END;
--> statement-breakpoint
CREATE TRIGGER `changes_stay` BEFORE DELETE ON `changes`
BEGIN
	SELECT RAISE(ABORT, 'changes: there is one row');
END;
--> statement-breakpoint
-- A credit, debit or refund follows the account's last row. The charge of a request moves here when the request is folded.
CREATE TRIGGER `ledger_follows` BEFORE INSERT ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: the account has no such next row')
	WHERE NEW.`kind` <> 'charge' AND NOT EXISTS (
		SELECT 1 FROM `accounts`
		WHERE `id` = NEW.`account_id`
			AND `ledger_seq` + 1 = NEW.`seq`
			AND `balance` + NEW.`amount` = NEW.`balance_after`
			AND NOT EXISTS (
				SELECT 1 FROM `requests` WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`seq`
			)
	);
	SELECT RAISE(ABORT, 'ledger: a charge comes from a request that may be folded')
	WHERE NEW.`kind` = 'charge' AND NOT EXISTS (
		SELECT 1 FROM `requests`
		WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`seq`
			AND -`charge` = NEW.`amount` AND `balance_after` = NEW.`balance_after`
			AND 'req:' || `public_id` = NEW.`ref` AND `at` < (SELECT `kept_since` FROM `retention`)
	);
	SELECT RAISE(ABORT, 'ledger: that ref or id is there already')
	WHERE EXISTS (SELECT 1 FROM `ledger` WHERE `ref` = NEW.`ref`)
		OR EXISTS (SELECT 1 FROM `ledger` WHERE `id` = NEW.`id`);
END;
--> statement-breakpoint
-- Never more is given back than was charged, and only while the request is kept: the refund lowers the spending of the key
-- and the totals of the day.
CREATE TRIGGER `ledger_refunds_charge` BEFORE INSERT ON `ledger`
WHEN NEW.`kind` = 'refund' OR NEW.`refund_of` IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'ledger: a refund gives back what is left of a charge of a request that is kept')
	WHERE NEW.`kind` <> 'refund' OR NOT EXISTS (
		SELECT 1 FROM `requests`
		WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`refund_of`
			AND NEW.`amount` <= `charge` - (
				SELECT coalesce(sum(`amount`), 0) FROM `ledger`
				WHERE `account_id` = NEW.`account_id` AND `refund_of` = NEW.`refund_of`
			)
	);
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_refund_counts` AFTER INSERT ON `ledger`
WHEN NEW.`kind` = 'refund'
BEGIN
	UPDATE `daily_totals` SET `refunded` = `refunded` + NEW.`amount`
	WHERE (`day`, `account_id`, `key_id`, `model`, `provider`, `endpoint`) = (
		SELECT `at` / 86400000, `account_id`, `key_id`, `model`, coalesce(`provider`, ''), `endpoint`
		FROM `requests` WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`refund_of`
	);
	UPDATE `keys` SET `spent` = `spent` - NEW.`amount`
	WHERE `id` = (
		SELECT coalesce(`first_key_id`, `keys`.`id`) FROM `requests` JOIN `keys` ON `keys`.`id` = `requests`.`key_id`
		WHERE `requests`.`account_id` = NEW.`account_id` AND `requests`.`ledger_seq` = NEW.`refund_of`
	);
END;
--> statement-breakpoint
-- The balance moves to the last row of the account's history: by one row of the ledger, or by the charges of one group of
-- requests. Each charge of the group follows from the one before it (requests_follow).
CREATE TRIGGER `accounts_follow_ledger` BEFORE UPDATE OF `balance`, `ledger_seq` ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: the balance follows the ledger only')
	WHERE NOT (NEW.`ledger_seq` = OLD.`ledger_seq` + 1 AND EXISTS (
			SELECT 1 FROM `ledger`
			WHERE `account_id` = NEW.`id` AND `seq` = NEW.`ledger_seq` AND `balance_after` = NEW.`balance`
		)) AND NOT (NEW.`ledger_seq` > OLD.`ledger_seq` AND EXISTS (
			SELECT 1 FROM `requests`
			WHERE `account_id` = NEW.`id` AND `ledger_seq` = NEW.`ledger_seq` AND `balance_after` = NEW.`balance`
		));
	SELECT RAISE(ABORT, 'accounts: a charge is left out')
	WHERE EXISTS (
		SELECT 1 FROM `requests` WHERE `account_id` = NEW.`id` AND `ledger_seq` = NEW.`ledger_seq` + 1
	);
END;
--> statement-breakpoint
-- A charge follows from the balance of its account, or from the charge before it in the same group.
CREATE TRIGGER `requests_follow` BEFORE INSERT ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: the account has no such next charge')
	WHERE NEW.`ledger_seq` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `accounts`
		WHERE `id` = NEW.`account_id`
			AND (`ledger_seq` + 1 = NEW.`ledger_seq` AND `balance` - NEW.`charge` = NEW.`balance_after`
				OR `ledger_seq` + 1 < NEW.`ledger_seq` AND EXISTS (
					SELECT 1 FROM `requests`
					WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`ledger_seq` - 1
						AND `balance_after` - NEW.`charge` = NEW.`balance_after`
				))
	);
	SELECT RAISE(ABORT, 'requests: that id is there already')
	WHERE EXISTS (SELECT 1 FROM `requests` WHERE `public_id` = NEW.`public_id`)
		OR EXISTS (SELECT 1 FROM `requests` WHERE `id` = NEW.`id`);
END;
--> statement-breakpoint
-- A request leaves the state `running` exactly once, and what was held stays. Model and prices become those of the model
-- that answered.
CREATE TRIGGER `requests_end_once` BEFORE UPDATE ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: a request ends exactly once')
	WHERE OLD.`status` <> 'running' OR NEW.`status` = 'running';
	SELECT RAISE(ABORT, 'requests: what was held is never changed')
	WHERE NEW.`hold` <> OLD.`hold` OR NEW.`account_id` <> OLD.`account_id` OR NEW.`key_id` <> OLD.`key_id`
		OR NEW.`id` <> OLD.`id` OR NEW.`public_id` <> OLD.`public_id` OR NEW.`at` <> OLD.`at`
		OR NEW.`endpoint` <> OLD.`endpoint`;
	SELECT RAISE(ABORT, 'requests: the account has no such next charge')
	WHERE NEW.`ledger_seq` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `accounts`
		WHERE `id` = NEW.`account_id`
			AND (`ledger_seq` + 1 = NEW.`ledger_seq` AND `balance` - NEW.`charge` = NEW.`balance_after`
				OR `ledger_seq` + 1 < NEW.`ledger_seq` AND EXISTS (
					SELECT 1 FROM `requests`
					WHERE `account_id` = NEW.`account_id` AND `ledger_seq` = NEW.`ledger_seq` - 1
						AND `balance_after` - NEW.`charge` = NEW.`balance_after`
				))
	);
END;
--> statement-breakpoint
-- A request is removed only if it has ended, retention allows it, and its charge is in the ledger.
CREATE TRIGGER `requests_keep` BEFORE DELETE ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: only ended ones that are older than retention keeps are removed')
	WHERE OLD.`status` = 'running' OR OLD.`at` >= (SELECT `kept_since` FROM `retention`);
	SELECT RAISE(ABORT, 'requests: the charge is not in the ledger')
	WHERE OLD.`ledger_seq` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `ledger`
		WHERE `account_id` = OLD.`account_id` AND `seq` = OLD.`ledger_seq` AND `kind` = 'charge'
			AND `amount` = -OLD.`charge` AND `balance_after` = OLD.`balance_after` AND `ref` = 'req:' || OLD.`public_id`
	);
END;
--> statement-breakpoint
-- The credit of a redemption comes first, and only for a voucher that is open.
CREATE TRIGGER `ledger_redeems_voucher` BEFORE INSERT ON `ledger`
WHEN NEW.`ref` GLOB 'voucher:*'
BEGIN
	SELECT RAISE(ABORT, 'ledger: a ref with voucher: is the credit of an open voucher')
	WHERE NOT EXISTS (
		SELECT 1 FROM `vouchers`
		WHERE `public_id` = substr(NEW.`ref`, 9) AND `amount` = NEW.`amount` AND NEW.`kind` = 'credit'
			AND `redeemed_at` IS NULL AND `revoked_at` IS NULL
			AND (`expires_at` IS NULL OR NEW.`at` < `expires_at`)
	);
END;
--> statement-breakpoint
CREATE TRIGGER `vouchers_start_open` BEFORE INSERT ON `vouchers`
BEGIN
	SELECT RAISE(ABORT, 'vouchers: a new voucher is open')
	WHERE NEW.`revoked_at` IS NOT NULL OR NEW.`redeemed_at` IS NOT NULL;
	SELECT RAISE(ABORT, 'vouchers: that id or code is there already')
	WHERE EXISTS (SELECT 1 FROM `vouchers` WHERE `public_id` = NEW.`public_id`)
		OR EXISTS (SELECT 1 FROM `vouchers` WHERE `hash` = NEW.`hash`)
		OR EXISTS (SELECT 1 FROM `vouchers` WHERE `id` = NEW.`id`);
END;
--> statement-breakpoint
-- A voucher ends once: it is redeemed with its credit in the ledger, or revoked without one. Nothing else changes.
CREATE TRIGGER `vouchers_end_once` BEFORE UPDATE ON `vouchers`
BEGIN
	SELECT RAISE(ABORT, 'vouchers: a voucher ends exactly once')
	WHERE OLD.`redeemed_at` IS NOT NULL OR OLD.`revoked_at` IS NOT NULL;
	SELECT RAISE(ABORT, 'vouchers: what was created is never changed')
	WHERE NEW.`id` <> OLD.`id` OR NEW.`public_id` <> OLD.`public_id` OR NEW.`hash` <> OLD.`hash`
		OR NEW.`prefix` <> OLD.`prefix` OR NEW.`amount` <> OLD.`amount` OR NEW.`note` IS NOT OLD.`note`
		OR NEW.`created_at` <> OLD.`created_at` OR NEW.`expires_at` IS NOT OLD.`expires_at`;
	SELECT RAISE(ABORT, 'vouchers: the ledger has no such credit')
	WHERE NEW.`redeemed_at` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `ledger`
		WHERE `ref` = 'voucher:' || NEW.`public_id` AND `kind` = 'credit' AND `amount` = NEW.`amount`
			AND `account_id` = NEW.`redeemed_by` AND `at` = NEW.`redeemed_at`
	);
	SELECT RAISE(ABORT, 'vouchers: the ledger has its credit')
	WHERE NEW.`revoked_at` IS NOT NULL
		AND EXISTS (SELECT 1 FROM `ledger` WHERE `ref` = 'voucher:' || NEW.`public_id`);
END;
--> statement-breakpoint
CREATE TRIGGER `vouchers_keep` BEFORE DELETE ON `vouchers`
BEGIN
	SELECT RAISE(ABORT, 'vouchers: vouchers are never removed');
END;
--> statement-breakpoint
CREATE TRIGGER `voucher_start_stays` BEFORE UPDATE ON `voucher_start`
BEGIN
	SELECT RAISE(ABORT, 'voucher_start: the row is never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `voucher_start_is_one` BEFORE INSERT ON `voucher_start`
BEGIN
	SELECT RAISE(ABORT, 'voucher_start: there is one row');
END;
--> statement-breakpoint
CREATE TRIGGER `voucher_start_is_kept` BEFORE DELETE ON `voucher_start`
BEGIN
	SELECT RAISE(ABORT, 'voucher_start: there is one row');
END;

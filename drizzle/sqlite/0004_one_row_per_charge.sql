DROP TRIGGER `ledger_follows`;
--> statement-breakpoint
DROP TRIGGER `ledger_moves_balance`;
--> statement-breakpoint
DROP TRIGGER `ledger_keeps`;
--> statement-breakpoint
DROP TRIGGER `ledger_keeps_all`;
--> statement-breakpoint
DROP TRIGGER `ledger_refunds_charge`;
--> statement-breakpoint
DROP TRIGGER `ledger_refund_counts`;
--> statement-breakpoint
DROP TRIGGER `accounts_start_empty`;
--> statement-breakpoint
DROP TRIGGER `accounts_stay_themselves`;
--> statement-breakpoint
DROP TRIGGER `accounts_follow_ledger`;
--> statement-breakpoint
DROP TRIGGER `accounts_keep`;
--> statement-breakpoint
DROP TRIGGER `requests_start_running`;
--> statement-breakpoint
DROP TRIGGER `requests_end_once`;
--> statement-breakpoint
DROP TRIGGER `requests_count`;
--> statement-breakpoint
DROP TRIGGER `requests_keep`;
--> statement-breakpoint
CREATE TABLE `changes` (
	`id` integer PRIMARY KEY NOT NULL,
	`seq` integer NOT NULL
) STRICT;
--> statement-breakpoint
INSERT INTO `changes` (`id`, `seq`) VALUES (1, 0);
--> statement-breakpoint
CREATE TABLE `__new_requests` (
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
	`ledger_seq` integer,
	`balance_after` integer,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "requests_status" CHECK("__new_requests"."status" IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
	CONSTRAINT "requests_amounts" CHECK("__new_requests"."hold" >= 0 AND "__new_requests"."charge" >= 0 AND "__new_requests"."write_off" >= 0 AND "__new_requests"."prompt_tokens" >= 0 AND "__new_requests"."cached_tokens" >= 0 AND "__new_requests"."cache_write_tokens" >= 0 AND "__new_requests"."completion_tokens" >= 0 AND "__new_requests"."cached_tokens" + "__new_requests"."cache_write_tokens" <= "__new_requests"."prompt_tokens"),
	CONSTRAINT "requests_price" CHECK("__new_requests"."charge" + "__new_requests"."write_off" = ("__new_requests"."prompt_tokens" - "__new_requests"."cached_tokens" - "__new_requests"."cache_write_tokens") * "__new_requests"."price_input" + "__new_requests"."cached_tokens" * "__new_requests"."price_cached_input" + "__new_requests"."cache_write_tokens" * "__new_requests"."price_cache_write" + "__new_requests"."completion_tokens" * "__new_requests"."price_output"),
	CONSTRAINT "requests_unbilled" CHECK("__new_requests"."status" IN ('done', 'cancelled') OR "__new_requests"."charge" + "__new_requests"."write_off" = 0),
	CONSTRAINT "requests_charge" CHECK(("__new_requests"."ledger_seq" IS NOT NULL) = ("__new_requests"."status" = 'done' OR "__new_requests"."charge" > 0) AND ("__new_requests"."balance_after" IS NULL) = ("__new_requests"."ledger_seq" IS NULL))
) STRICT;
--> statement-breakpoint
-- The charge of a request moves from the ledger into the request's own row. A statement with ?1 and ?2 runs for ranges of ids.
INSERT INTO `__new_requests` (`id`, `public_id`, `at`, `account_id`, `key_id`, `endpoint`, `model`, `provider`, `stream`, `status`, `price_input`, `price_cached_input`, `price_cache_write`, `price_output`, `hold`, `charge`, `write_off`, `prompt_tokens`, `cached_tokens`, `cache_write_tokens`, `completion_tokens`, `estimated`, `operator_cost`, `attempt_count`, `duration_ms`, `first_byte_ms`, `ledger_seq`, `balance_after`)
SELECT `requests`.`id`, `requests`.`public_id`, `requests`.`at`, `requests`.`account_id`, `requests`.`key_id`, `requests`.`endpoint`, `requests`.`model`, `requests`.`provider`, `requests`.`stream`, `requests`.`status`, `requests`.`price_input`, `requests`.`price_cached_input`, `requests`.`price_cache_write`, `requests`.`price_output`, `requests`.`hold`, `requests`.`charge`, `requests`.`write_off`, `requests`.`prompt_tokens`, `requests`.`cached_tokens`, `requests`.`cache_write_tokens`, `requests`.`completion_tokens`, `requests`.`estimated`, `requests`.`operator_cost`, `requests`.`attempt_count`, `requests`.`duration_ms`, `requests`.`first_byte_ms`, `charged`.`seq`, `charged`.`balance_after`
FROM `requests` LEFT JOIN `ledger` AS `charged` ON `charged`.`ref` = 'req:' || `requests`.`public_id`
WHERE `requests`.`id` > ?1 AND `requests`.`id` <= ?2
ORDER BY `requests`.`id`;
--> statement-breakpoint
CREATE TABLE `__new_ledger` (
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
	CONSTRAINT "ledger_kind" CHECK("__new_ledger"."kind" IN ('credit', 'debit', 'charge', 'refund')),
	CONSTRAINT "ledger_sign" CHECK(CASE WHEN "__new_ledger"."kind" IN ('debit', 'charge') THEN "__new_ledger"."amount" <= 0 ELSE "__new_ledger"."amount" > 0 END),
	CONSTRAINT "ledger_charge_ref" CHECK(("__new_ledger"."kind" = 'charge') = (coalesce("__new_ledger"."ref", '') GLOB 'req:*'))
) STRICT;
--> statement-breakpoint
INSERT INTO `__new_ledger` (`id`, `account_id`, `seq`, `kind`, `amount`, `balance_after`, `ref`, `actor`, `note`, `at`, `refund_of`)
SELECT `ledger`.`id`, `ledger`.`account_id`, `ledger`.`seq`, `ledger`.`kind`, `ledger`.`amount`, `ledger`.`balance_after`, `ledger`.`ref`, `ledger`.`actor`, `ledger`.`note`, `ledger`.`at`,
	(SELECT `charged`.`seq` FROM `ledger` AS `charged` WHERE `charged`.`id` = `ledger`.`refund_of`)
FROM `ledger`
WHERE `kind` <> 'charge' OR NOT EXISTS (SELECT 1 FROM `requests` WHERE `public_id` = substr(`ledger`.`ref`, 5))
ORDER BY `id`;
--> statement-breakpoint
-- A request with one attempt that succeeded tells the same in its own row.
DELETE FROM `attempts` WHERE `outcome` = 'ok' AND EXISTS (
	SELECT 1 FROM `requests`
	WHERE `id` = `attempts`.`request_id` AND `attempt_count` = 1 AND `requests`.`provider` = `attempts`.`provider`
);
--> statement-breakpoint
DROP TABLE `ledger`;
--> statement-breakpoint
ALTER TABLE `__new_ledger` RENAME TO `ledger`;
--> statement-breakpoint
DROP TABLE `requests`;
--> statement-breakpoint
ALTER TABLE `__new_requests` RENAME TO `requests`;
--> statement-breakpoint
CREATE TABLE `__new_accounts` (
	`id` integer PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`balance` integer DEFAULT 0 NOT NULL,
	`overdraft` integer DEFAULT 0 NOT NULL,
	`ledger_seq` integer DEFAULT 0 NOT NULL,
	`reserved` integer DEFAULT 0 NOT NULL,
	`disabled` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	CONSTRAINT "accounts_promise" CHECK("__new_accounts"."balance" + "__new_accounts"."overdraft" >= 0),
	CONSTRAINT "accounts_overdraft" CHECK("__new_accounts"."overdraft" >= 0),
	CONSTRAINT "accounts_reserve" CHECK("__new_accounts"."reserved" BETWEEN 0 AND "__new_accounts"."balance" + "__new_accounts"."overdraft")
) STRICT;
--> statement-breakpoint
INSERT INTO `__new_accounts` (`id`, `name`, `balance`, `overdraft`, `ledger_seq`, `disabled`, `created_at`) SELECT `id`, `name`, `balance`, `overdraft`, `ledger_seq`, `disabled`, `created_at` FROM `accounts`;
--> statement-breakpoint
DROP TABLE `accounts`;
--> statement-breakpoint
ALTER TABLE `__new_accounts` RENAME TO `accounts`;
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_ref_unique` ON `ledger` (`ref`);
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_account_seq` ON `ledger` (`account_id`,`seq`);
--> statement-breakpoint
CREATE INDEX `ledger_refunds` ON `ledger` (`account_id`,`refund_of`) WHERE refund_of IS NOT NULL;
--> statement-breakpoint
CREATE UNIQUE INDEX `requests_public_id_unique` ON `requests` (`public_id`);
--> statement-breakpoint
CREATE INDEX `requests_at` ON `requests` (`at`);
--> statement-breakpoint
CREATE UNIQUE INDEX `requests_account_seq` ON `requests` (`account_id`,`ledger_seq`) WHERE ledger_seq IS NOT NULL;
--> statement-breakpoint
CREATE INDEX `requests_not_done` ON `requests` (`status`,`account_id`) WHERE status <> 'done';
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_name_unique` ON `accounts` (`name`);
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
-- Never more is given back than was charged, and only while the request is kept: the refund lowers the spending of the key and the totals of the day.
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
CREATE TRIGGER `accounts_keep` BEFORE DELETE ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: accounts are never removed');
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
-- A request leaves the state `running` exactly once, and what it was admitted with stays.
CREATE TRIGGER `requests_end_once` BEFORE UPDATE ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: a request ends exactly once')
	WHERE OLD.`status` <> 'running' OR NEW.`status` = 'running';
	SELECT RAISE(ABORT, 'requests: what was held is never changed')
	WHERE NEW.`hold` <> OLD.`hold` OR NEW.`account_id` <> OLD.`account_id` OR NEW.`key_id` <> OLD.`key_id`
		OR NEW.`price_input` <> OLD.`price_input` OR NEW.`price_output` <> OLD.`price_output`
		OR NEW.`price_cached_input` <> OLD.`price_cached_input` OR NEW.`price_cache_write` <> OLD.`price_cache_write`
		OR NEW.`id` <> OLD.`id` OR NEW.`public_id` <> OLD.`public_id` OR NEW.`at` <> OLD.`at`
		OR NEW.`model` <> OLD.`model` OR NEW.`endpoint` <> OLD.`endpoint`;
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
